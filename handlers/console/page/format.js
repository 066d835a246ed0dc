// Money, times and words as people read them. No amount is ever a floating-point
// number: it is text, or a count of minor units.

// minorOf is how many minor units an amount such as "10.00" is.
export function minorOf(amount) {
	return BigInt(amount.replace(".", ""));
}

// places is how many decimal places an amount is printed with.
export function places(amount) {
	const dot = amount.indexOf(".");
	return dot < 0 ? 0 : amount.length - dot - 1;
}

// amountOf is the text of a count of minor units.
export function amountOf(minor, exponent) {
	const negative = minor < 0n;
	const digits = (negative ? -minor : minor).toString().padStart(exponent + 1, "0");
	const whole = digits.slice(0, digits.length - exponent);
	return (negative ? "-" : "") + (exponent ? `${whole}.${digits.slice(-exponent)}` : whole);
}

// grouped puts thin spaces between thousands.
export function grouped(amount) {
	const [whole, fraction] = amount.split(".");
	const text = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
	return fraction === undefined ? text : `${text}.${fraction}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

// moment is an instant of the API in the reader's time zone.
export function moment(text) {
	return clock.format(new Date(text));
}

// after is how long two instants are apart, in the largest unit that says it.
export function after(from, to) {
	const seconds = Math.abs(new Date(to) - new Date(from)) / 1000;
	if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
	if (seconds < 60) return `${seconds.toFixed(1)} s`;
	if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
	if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
	return `${Math.round(seconds / 86400)} days`;
}

// words makes "partially_captured" readable.
export function words(name) {
	return name.replaceAll("_", " ").replaceAll(".", ": ");
}

// size is a count of bytes.
export function size(bytes) {
	if (bytes < 1024) return `${bytes} B`;
	const unit = bytes < 1024 * 1024 ? ["KiB", 1024] : ["MiB", 1024 * 1024];
	return `${(bytes / unit[1]).toFixed(1)} ${unit[0]}`;
}
