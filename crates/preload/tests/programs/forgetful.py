"""Clears its environment, as nginx does in its workers, and then does what another program of this folder does."""
import os, sys

os.environ.clear()
sys.argv.pop(0)
with open(os.path.join(os.path.dirname(__file__), sys.argv[0])) as file:
    exec(file.read())
