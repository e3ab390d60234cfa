"""What report forms share: the words and rows of every form; pure."""
