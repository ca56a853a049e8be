"""Kernels of a training step: `plain` is each one in torch, the other files are each one in Triton."""
