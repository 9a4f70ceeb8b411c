"""The commands of `penstock flow`, one file each, and the display of a run."""
