// What the pages do beyond being read: copy a block of code, and search. Without this
// script they are all there, without these two.

// Each block of code has a button that copies it; what a command prints has none.
for (const pre of document.querySelectorAll("pre:not(:has([data-language=text]))")) {
	const frame = document.createElement("div");
	frame.className = "code";
	const button = document.createElement("button");
	button.type = "button";
	button.className = "copy";
	button.textContent = "Copy";
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(pre.innerText.replace(/\n$/, ""));
			button.textContent = "Copied";
		} catch {
			getSelection().selectAllChildren(pre); // a page without TLS has no clipboard
			button.textContent = "Selected: press Ctrl-C";
		}
		button.classList.add("done");
		setTimeout(() => {
			button.textContent = "Copy";
			button.classList.remove("done");
		}, 2000);
	});
	pre.replaceWith(frame);
	frame.append(pre, button);
}

// Each heading leads to itself.
for (const heading of document.querySelectorAll(".text :is(h2, h3)[id]")) {
	const link = document.createElement("a");
	link.className = "anchor";
	link.href = "#" + heading.id;
	link.textContent = "#";
	link.setAttribute("aria-label", "Link to: " + heading.textContent);
	heading.append(link);
}

const box = document.querySelector(".search");
const field = document.getElementById("search");
const results = document.getElementById("results");
const found = document.getElementById("found");
box.hidden = false;

// The index is loaded when it is first needed.
let loading;
const index = () => {
	loading ??= fetch("/docs/search.json").then((answer) => {
		if (!answer.ok) throw new Error(answer.statusText);
		return answer.json();
	}).catch((failed) => {
		loading = undefined;
		throw failed;
	});
	return loading;
};

// score is how well a part answers: every word must be in it, and counts more in a
// heading, and at the beginning of a word.
function score(words, title, heading, text) {
	let sum = 0;
	for (const word of words) {
		let best = 0;
		for (const [where, weight] of [[heading, 12], [title, 6], [text, 1]]) {
			const at = where.indexOf(word);
			if (at < 0) continue;
			const begins = at === 0 || !/[\p{L}\p{N}]/u.test(where[at - 1]);
			best = Math.max(best, weight * (begins ? 2 : 1) + (where === word ? weight * 3 : 0));
		}
		if (best === 0) return 0;
		sum += best;
	}
	return sum;
}

function search({ pages, parts }, words) {
	const hits = [];
	for (const part of parts) {
		const [page, , heading, text] = part;
		const value = score(words, pages[page][1].toLowerCase(), heading.toLowerCase(), text.toLowerCase());
		if (value > 0) hits.push({ part, value });
	}
	hits.sort((a, b) => b.value - a.value); // as they stand in the pages, where they are equal
	return hits.slice(0, 12).map((hit) => hit.part);
}

// snippet is the text around the first word, with the words marked.
function snippet(text, words) {
	const lower = text.toLowerCase();
	const first = Math.max(0, Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0), text.length) - 40);
	const shown = document.createElement("span");
	let at = Math.min(first, Math.max(0, text.length - 140));
	const end = Math.min(text.length, at + 140);
	shown.append(at > 0 ? "… " : "");
	while (at < end) {
		const next = words.map((word) => [lower.indexOf(word, at), word.length]).filter(([from]) => from >= 0 && from < end).sort((a, b) => a[0] - b[0] || b[1] - a[1])[0];
		if (!next) break;
		const marked = document.createElement("mark");
		marked.textContent = text.slice(next[0], next[0] + next[1]);
		shown.append(text.slice(at, next[0]), marked);
		at = next[0] + next[1];
	}
	shown.append(text.slice(at, Math.max(at, end)), end < text.length ? " …" : "");
	return shown;
}

function entry({ pages }, [page, anchor, heading, text], words) {
	const link = document.createElement("a");
	link.href = "/docs/" + pages[page][0] + (anchor ? "#" + anchor : "");
	const title = document.createElement("strong");
	title.textContent = heading === pages[page][1] ? heading : pages[page][1] + ": " + heading;
	link.append(title, snippet(text, words));
	link.addEventListener("click", () => { results.hidden = true; }); // it may lead to this page
	const item = document.createElement("li");
	item.append(link);
	return item;
}

async function show() {
	const text = field.value;
	const words = text.toLowerCase().split(/\s+/).filter(Boolean);
	if (words.length === 0) {
		results.hidden = true;
		found.textContent = "";
		return;
	}
	try {
		const all = await index();
		if (field.value !== text) return; // somebody types faster
		const list = document.createElement("ul");
		list.append(...search(all, words).map((part) => entry(all, part, words)));
		found.textContent = list.childElementCount === 0 ? "Nothing found" : list.childElementCount + " results";
		results.replaceChildren(list.childElementCount === 0 ? note("Nothing found. Try fewer or shorter words.") : list);
	} catch {
		results.replaceChildren(note("The search index cannot be loaded. Is the service still running?"));
	}
	results.hidden = false;
}

function note(text) {
	const line = document.createElement("p");
	line.textContent = text;
	return line;
}

field.addEventListener("input", show);
field.addEventListener("focus", () => { index().catch(() => {}); if (field.value) show(); });
box.addEventListener("keydown", (event) => {
	const links = [...results.querySelectorAll("a")];
	const at = links.indexOf(document.activeElement);
	if (event.key === "Escape") {
		results.hidden = true;
		field.focus();
	} else if (event.key === "Enter" && event.target === field) {
		links[0]?.click();
	} else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
		const to = event.key === "ArrowDown" ? at + 1 : at - 1;
		(links[to] ?? field).focus();
	} else {
		return;
	}
	event.preventDefault();
});
document.addEventListener("click", (event) => { if (!box.contains(event.target)) results.hidden = true; });
document.addEventListener("keydown", (event) => {
	const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
	if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
		event.preventDefault();
		field.focus();
		field.select();
	}
});
