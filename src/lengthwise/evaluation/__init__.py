"""What is measured: accuracy against length, and the symmetries that a model keeps."""
