package env

import (
	"os"
	"strconv"
	"time"
)

// Variable returns the value of an environment variable, or a default if it is unset or empty.
func Variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// Seconds returns the duration in an environment variable, or a default if the variable is not a number of seconds. Fractions
// are allowed.
func Seconds(name string, otherwise float64) time.Duration {
	value, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil || value < 0 {
		value = otherwise
	}
	return time.Duration(value * float64(time.Second))
}

// Natural parses a non-negative number; it returns 0 for any other text.
func Natural(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0
	}
	return number
}
