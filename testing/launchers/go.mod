module launchers

go 1.24
