"""What is minimised: pure functions of tensors."""
