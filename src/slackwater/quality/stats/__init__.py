"""What is learned of delays, rates and values."""
