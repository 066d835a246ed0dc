// Package tollgate holds the domain: money, rules' citations, quotes,
// perimeters, payments, tickets and events, with the pure rules that govern
// them. It does no I/O and reads neither clock nor environment; time and
// randomness come in as arguments.
//
// It is the only package that knows decimals (ericlagergren/decimal) and bank
// holidays (rickar/cal), and it brings its own time zones (scripts/zoneinfo.zip).
// Section numbers in comments ("interface §3", "spec §3") are those of
// handlers/docs/interface.md.
package tollgate
