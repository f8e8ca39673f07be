"""One thread, so that sums do not depend on the machine; Ctrl-C heard, which a shell's background job ignores."""

import signal

import torch

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what tests start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)
