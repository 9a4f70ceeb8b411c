"""What `penstock doctor` checks, and how it rebuilds the lists."""
