#!/usr/bin/python3
"""The same weights in PyTorch and here: logits, the loss of 20 steps of SGD, and what export gives back.

    bench/torch_weights.py --program build/release/bin/lockstep [--only resnet18,gpt2] [--backend cuda] [--full]

Random weights of torchvision's networks, and of GPT-2 and BERT (of the package transformers, else written here with its
names), go into a safetensors file. lockstep predicts with it, trains on the same samples, and exports. A step's batch is
the whole data set, so the order of samples is no part of the comparison. Without --full GPT-2 and BERT are small.
Ends with 1 if a network differs by more than the limits.
"""
import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

LOGITS, LOSS, STEPS = 1e-4, 1e-3, 20
IGNORED = r"^lm_head\.weight$|\.attn\.(masked_)?bias$|position_ids$"  # tied, masks: no weights
DTYPES = {"F32": np.float32, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        a = np.ascontiguousarray(t.detach().cpu().numpy()).reshape(tuple(t.shape))
        dtype = next(k for k, v in DTYPES.items() if v == a.dtype)
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        blobs.append(a.tobytes())
        at += a.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(size)), f.read()
    return {name: np.frombuffer(data[slice(*h["data_offsets"])], DTYPES[h["dtype"]]).reshape(h["shape"])
            for name, h in header.items() if name != "__metadata__"}


# ---- networks ----

class Conv1D(nn.Module):
    """Hugging Face's: weights are (in, out)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) * 0.02), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(q, k, v, heads, causal):
    n, t, d = q.shape
    q, k, v = (a.view(n, t, heads, d // heads).transpose(1, 2) for a in (q, k, v))
    scores = q @ k.transpose(-1, -2) / (d // heads) ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(t, t, dtype=torch.bool, device=q.device).tril(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(width, 3 * width), "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width), "c_proj": Conv1D(4 * width, width)})

    def forward(self, x):
        x = x + self.attn["c_proj"](attend(*self.attn["c_attn"](self.ln_1(x)).chunk(3, -1), self.heads, True))
        h = self.mlp["c_fc"](self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * h ** 3)))
        return x + self.mlp["c_proj"](h)


class Gpt2(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(s["vocabulary"], s["width"]), "wpe": nn.Embedding(s["context"], s["width"]),
            "h": nn.ModuleList(Gpt2Block(s["width"], s["heads"]) for _ in range(s["depth"])),
            "ln_f": nn.LayerNorm(s["width"])})

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1], device=ids.device))
        for block in t["h"]:
            x = block(x)
        return t["ln_f"](x) @ t["wte"].weight.T


def dictionary(**modules):
    return nn.ModuleDict(modules)


class BertLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        part = lambda inputs: dictionary(dense=nn.Linear(inputs, d), LayerNorm=nn.LayerNorm(d, 1e-12))
        self.attention = nn.ModuleDict()
        self.attention.add_module("self", dictionary(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)))
        self.attention.add_module("output", part(d))
        self.intermediate, self.output = dictionary(dense=nn.Linear(d, 4 * d)), part(4 * d)

    def forward(self, x):
        own, out = self.attention["self"], self.attention["output"]
        mixed = attend(own["query"](x), own["key"](x), own["value"](x), self.heads, False)
        x = out["LayerNorm"](x + out["dense"](mixed))
        return self.output["LayerNorm"](x + self.output["dense"](F.gelu(self.intermediate["dense"](x))))


class Bert(nn.Module):
    """Classes of the first token, without the pooler."""

    def __init__(self, s):
        super().__init__()
        d = s["width"]
        self.bert = dictionary(
            embeddings=dictionary(word_embeddings=nn.Embedding(s["vocabulary"], d), position_embeddings=nn.Embedding(512, d),
                                  token_type_embeddings=nn.Embedding(2, d), LayerNorm=nn.LayerNorm(d, 1e-12)),
            encoder=dictionary(layer=nn.ModuleList(BertLayer(d, s["heads"]) for _ in range(s["depth"]))))
        self.classifier = nn.Linear(d, s["classes"])

    def forward(self, ids):
        e = self.bert["embeddings"]
        x = e["word_embeddings"](ids) + e["position_embeddings"].weight[:ids.shape[1]] + e["token_type_embeddings"].weight[0]
        x = e["LayerNorm"](x)
        for layer in self.bert["encoder"]["layer"]:
            x = layer(x)
        return self.classifier(x[:, 0])


def gpt2(s):
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return Gpt2(s), lambda m, ids: m(ids)
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=s["vocabulary"], n_positions=s["context"], n_embd=s["width"], n_layer=s["depth"], n_head=s["heads"],
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)), lambda m, ids: m(ids).logits


def bert(s):
    try:
        from transformers import BertConfig, BertForTokenClassification
    except ImportError:
        return Bert(s), lambda m, ids: m(ids)
    return BertForTokenClassification(BertConfig(
        vocab_size=s["vocabulary"], hidden_size=s["width"], num_hidden_layers=s["depth"], num_attention_heads=s["heads"],
        intermediate_size=4 * s["width"], hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        num_labels=s["classes"])), lambda m, ids: m(ids).logits[:, 0]


def vision(name, **options):
    def make(_):
        import torchvision
        model = getattr(torchvision.models, name)(**options)
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0
        return model, lambda m, x: m(x.permute(0, 3, 1, 2))
    return make


GPT_SMALL = {"dropout": 0, "width": 64, "depth": 3, "heads": 4, "context": 32, "vocabulary": 300}
GPT_FULL = {"dropout": 0, "width": 768, "depth": 12, "heads": 12, "context": 64, "vocabulary": 50257}
BERT_SMALL = {"dropout": 0, "width": 64, "depth": 3, "heads": 4, "context": 24, "vocabulary": 300, "classes": 2}
BERT_FULL = {"dropout": 0, "width": 768, "depth": 12, "heads": 12, "context": 128, "vocabulary": 30522, "classes": 2}
# Residual branches begin near 0: else 20 steps grow a rounding of the first into the second digit of the loss, in PyTorch
# alone with another number of threads as well.
# name: preset, map, maker, small sizes, full sizes, rate
CASES = {
    "resnet18": ("resnet18", "torchvision", vision("resnet18", zero_init_residual=True), {}, {}, 0.001),
    "resnet50": ("resnet50", "torchvision", vision("resnet50", zero_init_residual=True), {}, {}, 0.001),
    "efficientnet_b0": ("efficientnet-b0", "torchvision", vision("efficientnet_b0", stochastic_depth_prob=0), {"dropout": 0}, {"dropout": 0}, 0.01),
    "gpt2": ("gpt2", "hf-gpt2", gpt2, GPT_SMALL, GPT_FULL, 0.05),
    "bert": ("bert-base", "hf-bert", bert, BERT_SMALL, BERT_FULL, 0.02),
}


# ---- the comparison ----

def lockstep(args, *words):
    done = subprocess.run([args.program, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lockstep {' '.join(words)}\n{done.stderr}")
    return done


def samples(sizes, count):
    if "vocabulary" not in sizes:
        return np.random.randn(count, 224, 224, 3).astype(np.float32), np.random.randint(0, 1000, count, np.int32)
    ids = np.random.randint(0, sizes["vocabulary"], (count, sizes["context"]), np.int32)
    y = np.random.randint(0, sizes["classes"], count) if "classes" in sizes else np.random.randint(0, sizes["vocabulary"], ids.shape)
    return ids, y.astype(np.int32)


def disturb(model):
    """Statistics and affine parts that are not what both programs begin with."""
    for name, t in model.state_dict().items():
        if name.endswith("running_mean"):
            t.normal_(0, 0.1)
        elif name.endswith("running_var"):
            t.uniform_(0.8, 1.3)
        elif t.dtype == torch.float32 and t.dim() == 1:
            t.add_(torch.randn_like(t) * 0.02)


def train_torch(model, call, x, y, rate):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = call(model, x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logits = call(model, x)
        return losses, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1).long()).item()


def one(args, name, folder):
    preset, map_, make, small, full, rate = CASES[name]
    sizes = full if args.full else small
    torch.manual_seed(1)
    np.random.seed(1)
    model, call = make(sizes)
    disturb(model)
    device = torch.device("cuda" if args.backend == "cuda" else "cpu")
    model = model.to(device).eval()
    x, y = samples(sizes, args.batch)
    at = lambda file: os.path.join(folder, file)
    np.save(at("x.npy"), x)
    np.save(at("y.npy"), y)
    given = {k: v for k, v in model.state_dict().items() if not re.search(IGNORED, k)}
    write_safetensors(at("w.safetensors"), given)
    config = {"model": {"preset": preset, "weights": "w.safetensors", "map": map_, **sizes},
              "data": {"kind": "npy", "features": "x.npy", "targets": "y.npy"},
              "train": {"batch": args.batch, "steps": STEPS, "evaluate_every": 0, "checkpoint": {"dir": "run"},
                        "optimizer": {"name": "sgd", "lr": rate, "momentum": 0.9}},
              "parallel": {"backend": args.backend}}
    with open(at("c.yaml"), "w") as f:
        json.dump(config, f)

    tx, ty = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    with torch.no_grad():
        want = call(model, tx.long() if "vocabulary" in sizes else tx).cpu().numpy()
    done = lockstep(args, "predict", at("c.yaml"), "--input", at("x.npy"), "--output", at("p.npy"), "--set", "model.loss=mse")
    taken = next((line for line in done.stderr.splitlines() if "begins with" in line), done.stderr)
    got = np.load(at("p.npy")).reshape(want.shape)
    logits = float(np.abs(got - want).max() / max(1, np.abs(want).max()))

    lockstep(args, "export", at("c.yaml"), "--output", at("e.safetensors"))
    back, sent = read_safetensors(at("e.safetensors")), read_safetensors(at("w.safetensors"))
    # GPT-2 is written as in its published file; the count of batches is no weight, and load_state_dict takes files without it
    sent = {k.removeprefix("transformer."): v for k, v in sent.items() if not k.endswith("num_batches_tracked")}
    if map_ == "torchvision":
        model.load_state_dict({k: torch.tensor(v) for k, v in back.items()})
    lost = [k for k in sent if k not in back or back[k].shape != sent[k].shape or back[k].tobytes() != sent[k].tobytes()]
    extra = [k for k in back if k not in sent]

    losses, after = train_torch(model, call, tx.long() if "vocabulary" in sizes else tx, ty, rate)
    run = json.loads(lockstep(args, "train", at("c.yaml"), "--json", "--quiet").stdout)
    eval_ = json.loads(lockstep(args, "eval", at("c.yaml"), "--checkpoint", at("run"), "--json").stdout)
    loss = max(abs(run["train_loss_first"] - losses[0]), abs(run["train_loss"] - np.mean(losses)), abs(eval_["loss"] - after))
    good = logits <= LOGITS and loss <= LOSS and not lost and not extra
    return {"network": name, "logits": logits, "first": losses[0], "last": losses[-1], "after": after,
            "after_here": eval_["loss"], "loss": loss, "tensors": len(sent), "lost": lost, "extra": extra,
            "taken": taken, "good": good}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="lockstep")
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--full", action="store_true", help="GPT-2 and BERT base in their own sizes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    good = True
    if not args.json:
        print(f"PyTorch {torch.__version__}, {args.backend}, {args.batch} samples")
        print("| network | logits, largest relative difference | loss, first to last step | after, PyTorch / here | largest difference of losses | tensors given back |")
        print("|---|---|---|---|---|---|", flush=True)
    for name in args.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            r = one(args, name, folder)
        good = good and r["good"]
        if args.json:
            print(json.dumps(r), flush=True)
            continue
        print(f"| {r['network']} | {r['logits']:.1e} | {r['first']:.4f} to {r['last']:.4f} | {r['after']:.5f} / {r['after_here']:.5f} "
              f"| {r['loss']:.1e} | {r['tensors'] - len(r['lost'])} of {r['tensors']} |", flush=True)
        if not r["good"]:
            print(f"  {r['taken']}\n  lost: {r['lost'][:5]}\n  extra: {r['extra'][:5]}", flush=True)
    sys.exit(0 if good else 1)


main()
