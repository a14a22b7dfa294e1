//! SFT and DPO losses, pure.
