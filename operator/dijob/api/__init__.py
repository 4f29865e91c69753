"""What users write and what is stored: the model, its checks, and what a command line says."""
