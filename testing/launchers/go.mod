// The path lies below that of the launcher, whose packages are internal.
module dijob-launcher/players

go 1.26.0

require dijob-launcher v0.0.0

replace dijob-launcher => ../../images/launcher
