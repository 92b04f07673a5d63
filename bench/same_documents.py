#!/usr/bin/env python3
"""Runs the same commands with two builds of lockstep and compares every JSON document that they print or write: names,
their order, types, and the digits of every value. Values that differ between two runs of the old build (times, what
follows from them) are compared by type alone, and so are all fractions of a document that has such values. Usage: bench/same_documents.py OLD NEW [NAME..]  (programs; only these
commands). Ends with 1 when a document differs."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDED = ROOT + '/tests/machine/recorded/'
CONFIG = '''model: {preset: mlp-medium, loss: mse}
data: {kind: synthetic, samples: 512, validation: 0.1}
train: {batch: 32, steps: 12, seed: 3, optimizer: {name: adam, lr: 0.001}}
parallel: {backend: cpu}
'''
MNIST = '''model: {input: [28, 28], loss: cross-entropy, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: 10}}]}
data: {kind: idx, features: %(d)s/mnist-2000-images-idx3-ubyte.gz, targets: %(d)s/mnist-2000-labels-idx1-ubyte.gz, validation: 0.1}
train: {batch: 64, steps: 25, seed: 5, evaluate_every: 10, optimizer: {name: sgd, lr: 0.05}}
cost: {device_hour: 2.5, device_price: 900, trainings_per_month: 1000, power_w: 300, link_price: 200, host_price: 2000}
''' % {'d': ROOT + '/examples/data'}
BENCH = 'bench c.yaml --repetitions 3 --steps 4 --warmup 1 --ranks-list 1,2 --control-repetitions 2 '
# (name, command line; a file that it writes or "" for stdout)
COMMANDS = [
    ('version', '--version --json', ''),
    ('train', 'train c.yaml --json --quiet', ''),
    ('train-ref', 'train c.yaml --json --quiet --set parallel.backend=ref --set train.clip_norm=1 '
                  '--set train.accumulate=2', ''),
    ('train-2', 'train m.yaml --ranks 2 --json --quiet --set train.checkpoint.dir=run --trace trace.json', ''),
    ('trace', None, 'trace.json'),
    ('manifest', None, 'run/step-000000000025/manifest.json'),
    ('resume', 'train m.yaml --ranks 2 --json --quiet --resume --set train.checkpoint.dir=run --set train.steps=30', ''),
    ('eval', 'eval m.yaml --checkpoint run --json', ''),
    ('inspect', 'inspect c.yaml --json --set parallel.ranks=2 --set parallel.strategy=ddp', ''),
    ('inspect-mnist', 'inspect m.yaml --json', ''),
    ('check', 'check m.yaml --ranks 2 --json', ''),
    ('probe', 'probe --quick --json --output p.json', ''),
    ('profile', None, 'p.json'),
    ('plan', 'plan m.yaml --json --set train.batch=128', ''),
    ('plan-emit', 'plan m.yaml --policy thresholds --json --machine %snvlink_4xh200.profile.json' % RECORDED, ''),
    ('bench', BENCH + '--validate --output b.json --json', ''),
    ('bench-file', None, 'b.json'),
    ('bench-weak', BENCH + '--weak --batches 16,32 --control 0 --json', ''),
    ('bench-study', 'bench --from b.json --study --json', ''),
    ('compare', 'compare b.json b.json --json', ''),
]
for machine in ('bridge_2x4070ti_super', 'cpu_only', 'half_refused', 'nvlink_4xh200'):
    COMMANDS.append(('probe-' + machine, 'probe --machine %s%s.json --json' % (RECORDED, machine), ''))
    COMMANDS.append(('probe-p-' + machine, 'probe --machine %s%s.profile.json --json' % (RECORDED, machine), ''))
    COMMANDS.append(('plan-' + machine, 'plan m.yaml --json --machine %s%s.profile.json' % (RECORDED, machine), ''))
    COMMANDS.append(('plan-table-' + machine, 'plan m.yaml --machine %s%s.profile.json' % (RECORDED, machine), 'text'))
    COMMANDS.append(('probe-table-' + machine,
                     'probe --machine %s%s.profile.json' % (RECORDED, machine), 'text'))
for machine in ('h200', 'rtx5080-rtx4060', 'v100-hdr'):
    COMMANDS.append(('simulate-' + machine, 'simulate c.yaml --json --set parallel.strategy=ddp --set train.batch=512 --machine %s/machines/%s.yaml' % (ROOT, machine), ''))
COMMANDS.append(('simulate-workload', 'simulate --workload %s/examples/workloads/resnet50.yaml --json '
                 '--machine %s/machines/v100-hdr.yaml --ranks 1,2..16' % (ROOT, ROOT), ''))

# What measurements may bring or not, and in any order.
UNSTEADY = ('outliers', 'doctor', 'purchases', 'reasons')


def run(program, names):
    """{name: text}; programs run in a folder of the same name, called lockstep."""
    work = '/tmp/lockstep-same-documents'
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for name, text in (('c.yaml', CONFIG), ('m.yaml', MNIST)):
        with open(work + '/' + name, 'w') as f:
            f.write(text)
    env = dict(os.environ, XDG_CACHE_HOME=work + '/cache', OMPI_ALLOW_RUN_AS_ROOT='1',
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    texts = {}
    for name, command, file in COMMANDS:
        if names and name not in names:
            continue
        if command is None:
            with open(work + '/' + file) as f:
                texts[name] = f.read()
            continue
        done = subprocess.run(['lockstep'] + command.split(), executable=program, cwd=work, env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        texts[name] = done.stdout
        if not done.stdout:
            sys.exit('%s: %s' % (command, done.stderr))
    shutil.rmtree(work)
    return texts


def leaves(text):
    """[(path, type, value as it is written)], objects and lists among them."""
    out = []

    def walk(value, path):
        kind = type(value).__name__
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            out.append((path, 'object', ' '.join(k for k, _ in value)))
            for k, v in value:
                walk(v, path + '.' + k)
        elif isinstance(value, list):
            out.append((path, 'list', str(len(value))))
            for i, v in enumerate(value):
                walk(v, '%s[%d]' % (path, i))
        elif isinstance(value, Number):
            out.append((path, value.kind, value.text))
        else:
            out.append((path, kind, str(value)))

    try:
        walk(json.loads(text, object_pairs_hook=list, parse_float=lambda t: Number('real', t),
                        parse_int=lambda t: Number('integer', t)), '')
    except ValueError:
        out = [('line %d' % i, 'text', line) for i, line in enumerate(text.split('\n'))]
    return out


class Number:
    def __init__(self, kind, text):
        self.kind, self.text = kind, text


def compare(name, old, again, new):
    a, b, c = leaves(old), leaves(again), leaves(new)
    varies = {path for path, kind, value in set(a) ^ set(b)}
    keep = {path: (kind, value) for path, kind, value in a}
    kinds_b = {path: kind for path, kind, value in b}
    failed = []
    if not varies and [x[0] for x in a] != [x[0] for x in c]:
        failed.append('other members: %s' % [p for p, q in zip(a, c) if p != q][:2])
    for path, kind, value in c:
        if path.endswith('commit'):
            continue
        if varies and ((kind in ('real', 'NoneType') and keep.get(path, ('real',))[0] in ('real', 'NoneType')) or
                       any(word in path for word in UNSTEADY)):
            continue  # of a measurement: may differ between any two runs
        if path not in keep:
            if path not in kinds_b and not varies:
                failed.append('%s is new' % path)
        elif path not in varies and keep[path] != (kind, value):
            failed.append('%s: %s became %s' % (path, keep[path], (kind, value)))
        elif path in varies and kind != keep[path][0] and kind != kinds_b.get(path):
            failed.append('%s: a %s became a %s' % (path, keep[path][0], kind))
    there = {x[0] for x in c}
    failed += ['%s is gone' % p for p, _, _ in a if p not in there and p in kinds_b and not
               (varies and any(word in p for word in UNSTEADY))]
    print('%-28s %5d values, %5d vary: %s' % (name, len(a), len(varies), 'DIFFERENT' if failed else 'same'))
    for line in failed[:12]:
        print('    ' + line)
    return bool(failed)


def main():
    old, new, names = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]), sys.argv[3:]
    first, again, other = run(old, names), run(old, names), run(new, names)
    sys.exit(any([compare(n, first[n], again[n], other[n]) for n in first]))


if __name__ == '__main__':
    main()
