"""Arguments of the scripts beside this one: what is wrong is one sentence and exit code 2, before anything runs."""
import argparse
import os
import shutil


def above_zero(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: a whole number above 0 is expected")
    return int(text)


def program(text):
    if not shutil.which(text):
        raise argparse.ArgumentTypeError(f"{text}: no program")
    return os.path.abspath(shutil.which(text))
