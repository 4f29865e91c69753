module printer

go 1.26.0
