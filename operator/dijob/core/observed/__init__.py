"""What is there: what the apiserver shows and answers, as frozen views, and the words for it."""
