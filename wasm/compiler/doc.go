// Package compiler makes modules of pricing rules: of tables in TOML, which it
// compiles, and of what compilers of other languages made, which it packs.
package compiler
