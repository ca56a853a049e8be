"""Kernels of a training step: `plain` has each one in torch, the files of `gpu` each one in Triton."""
