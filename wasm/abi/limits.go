package abi

// What a module may be (spec §8: "1,000,000 fuel, 1 MiB memory, 256 KiB
// module"). The structural limits are checked before wazero sees a byte: its
// decoder allocates by the counts that it reads, and its compiler takes time
// out of proportion for large functions and ignores its context. What it takes
// grows with jumps times variables.
const (
	maxModule    = 256 << 10 // bytes
	maxBody      = 32 << 10  // bytes of one function
	maxLocals    = 256       // of one function, parameters included
	maxParams    = 32
	maxTypes     = 256
	maxFunctions = 2048
	maxGlobals   = 256
	maxExports   = 64
	maxName      = 128 // bytes of an exported name
	maxSegments  = 256 // data segments; element segments
	maxTable     = 1024
	maxDepth     = 128  // nested blocks of one function
	maxCharges   = 256  // loops, bulk operations and memory.grow of one function
	maxTargets   = 1024 // of one br_table
	maxJumps     = 4096 // of one function: branches, ifs, and each target of a br_table
	maxAllJumps  = 16384
	MemoryPages  = 16 // of 64 KiB
)

// What a call may use.
const (
	// FuelPerCall is what every call of a module begins with.
	FuelPerCall = 1_000_000

	// fuelPerEntry is charged for entering a function, beside its
	// instructions and locals, so that what all frames hold is at most a few
	// MiB.
	fuelPerEntry = 32

	// MaxCalls is how deep calls may be nested below the one that the host
	// makes. wazero's interpreter ends at 2000 frames, whatever they hold;
	// compiled code and other engines end elsewhere.
	MaxCalls = 1999

	// fuelPerGrow is charged for memory.grow, which leaves compiled code and
	// may copy all of the memory.
	fuelPerGrow = 4096

	// fuelShift: memory.copy and memory.fill cost one unit per 8 bytes.
	fuelShift = 3
)
