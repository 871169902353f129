"""No sockets."""
import sys

print("ready", flush=True)
sys.stdin.readline()
