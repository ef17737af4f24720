package pgfairq

import (
	"fmt"
	"log"
	"strings"
)

// Logger is what a [Runner] logs to. A *slog.Logger is one. The arguments after the
// message are keys and values in turn; for a line about a task they are task, queue,
// group, name and attempt, and where it has ended duration and outcome.
type Logger interface {
	Debug(msg string, args ...any)
	Info(msg string, args ...any)
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}

// DiscardLogger logs nothing.
var DiscardLogger Logger = discard{}

type discard struct{}

func (discard) Debug(string, ...any) {}
func (discard) Info(string, ...any)  {}
func (discard) Warn(string, ...any)  {}
func (discard) Error(string, ...any) {}

// stdLogger writes with the standard library's log, all but Debug.
type stdLogger struct{}

func (stdLogger) Debug(string, ...any)          {}
func (stdLogger) Info(msg string, args ...any)  { printLine("INFO", msg, args) }
func (stdLogger) Warn(msg string, args ...any)  { printLine("WARN", msg, args) }
func (stdLogger) Error(msg string, args ...any) { printLine("ERROR", msg, args) }

func printLine(level, msg string, args []any) {
	var line strings.Builder
	fmt.Fprintf(&line, "%s pgfairq: %s", level, msg)
	for i := 0; i+1 < len(args); i += 2 {
		value := fmt.Sprint(args[i+1])
		if value == "" || strings.ContainsAny(value, " \t\n\"=") {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&line, " %v=%s", args[i], value)
	}
	log.Print(line.String())
}
