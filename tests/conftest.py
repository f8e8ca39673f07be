"""One thread, so that sums do not depend on the machine."""

import torch

torch.set_num_threads(1)
