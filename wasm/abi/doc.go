// Package abi knows what a pricing rule is as a module: the numbers of ABI
// "tollgate:rule/1" (described in package wasm), the limits of its structure, its
// manifest, and how fuel is counted in it. It runs nothing.
package abi
