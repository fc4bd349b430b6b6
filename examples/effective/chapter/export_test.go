package chapter

var (
	Blocks = blocks
	Quotes = quotes
)
