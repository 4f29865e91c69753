module dijob-stacks

go 1.26.0
