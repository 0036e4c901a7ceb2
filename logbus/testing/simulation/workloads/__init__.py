"""The clients of a simulation: producers, consumers, transactions, an operator."""
