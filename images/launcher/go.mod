module dijob-launcher

go 1.26.0
