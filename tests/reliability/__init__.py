"""What was found by attacking Retrax, kept found: each test failed once."""
