//! Custom operations with a backward: linear, RMS norm, SwiGLU, rotary, tree attention, chosen-token log-probability.
