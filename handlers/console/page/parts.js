// The parts that pages are made of.
import { h, Fragment } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import htm from "htm";
import { get, newKey, Problem } from "./api.js";
import { grouped, moment, words } from "./format.js";
import { go, kindOf, linkTo } from "./links.js";

export const html = htm.bind(h);
export { Fragment };

// useLoad reads something when deps change. What an earlier read answers late is
// dropped.
export function useLoad(read, deps) {
	const [state, setState] = useState({ loading: true });
	const [turn, setTurn] = useState(0);
	useEffect(() => {
		let current = true;
		setState((before) => ({ ...before, loading: true, problem: null }));
		read().then(
			(data) => current && setState({ data, loading: false }),
			(problem) => current && setState({ problem, loading: false }),
		);
		return () => { current = false; };
	}, [...deps, turn]);
	return { ...state, reload: useCallback(() => setTurn((n) => n + 1), []) };
}

// useList reads a list page by page.
export function useList(path, query, limit = 50) {
	const key = path + JSON.stringify(query);
	const [state, setState] = useState({ rows: [], loading: true });
	const latest = useRef(key);
	const read = useCallback(async (cursor, before, shown = before) => {
		setState((s) => ({ ...s, rows: shown, loading: true, problem: null }));
		try {
			const page = await get(path, { ...query, limit, cursor });
			if (latest.current === key) setState({ rows: [...before, ...page.data], next: page.has_more ? page.next_cursor : "", loading: false });
		} catch (problem) {
			if (latest.current === key) setState({ rows: shown, next: cursor, problem, loading: false });
		}
	}, [key]);
	useEffect(() => {
		latest.current = key;
		read("", []);
	}, [key]);
	// refresh reads the newest ones again, and leaves those that it does not reach.
	const refresh = useCallback(async () => {
		try {
			const page = await get(path, { ...query, limit });
			if (latest.current !== key) return;
			setState((s) => {
				const reached = s.rows.findIndex((row) => row.id === page.data.at(-1)?.id) + 1;
				return reached ? { ...s, rows: [...page.data, ...s.rows.slice(reached)], problem: null } : { rows: page.data, next: page.has_more ? page.next_cursor : "", loading: false };
			});
		} catch (problem) {
			if (latest.current === key) setState((s) => ({ ...s, problem }));
		}
	}, [key]);
	return { ...state, more: () => read(state.next, state.rows), reload: () => read("", [], state.rows), refresh };
}

// useFollow calls refresh each second, one after the other, while on and looked at.
export function useFollow(on, refresh) {
	useEffect(() => {
		if (!on) return undefined;
		let timer;
		let current = true;
		const turn = async () => {
			if (!document.hidden) await refresh();
			if (current) timer = setTimeout(turn, 1000);
		};
		turn();
		return () => { current = false; clearTimeout(timer); };
	}, [on, refresh]);
}

// Page is what stands beside the sections. heading is the title with more than text.
export function Page({ title, heading, sub, actions, children }) {
	useEffect(() => { document.title = `${title} · Tollgate`; }, [title]);
	return html`<div class="page">
		<header class="page-head"><div><h1 tabindex="-1">${heading || title}</h1>${sub && html`<p class="sub">${sub}</p>`}</div>${actions && html`<div class="actions">${actions}</div>`}</header>
		${children}
	</div>`;
}

export function Card({ title, aside, children, id }) {
	const heading = id || `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
	return html`<section class="card" aria-labelledby=${heading}>
		<div class="card-head"><h2 id=${heading}>${title}</h2>${aside}</div>
		${children}
	</section>`;
}

// Link stays in the console without loading the page again.
export function Link({ to, children, ...rest }) {
	const click = (event) => {
		if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		event.preventDefault();
		go(to);
	};
	return html`<a href=${to} onClick=${click} ...${rest}>${children}</a>`;
}

// Id is an id or a citation, with a link where it has a page.
export function Id({ of, text }) {
	if (!of) return html`<span class="soft">none</span>`;
	const label = html`<span class="mono">${text || of}</span>`;
	return kindOf(of) || of.startsWith("rule:") ? html`<${Link} to=${linkTo(of)}>${label}</${Link}>` : label;
}

export function Money({ amount, currency }) {
	if (amount == null) return html`<span class="soft">–</span>`;
	return html`<span class="money">${grouped(amount)}${currency && html` <span class="currency">${currency}</span>`}</span>`;
}

export function Time({ at }) {
	if (!at) return html`<span class="soft">–</span>`;
	return html`<time datetime=${at} title=${at}>${moment(at)}</time>`;
}

const tones = {
	good: ["succeeded", "captured", "active", "paid", "allow"],
	bad: ["failed", "declined", "disabled", "deny", "denied", "held", "closed"],
	busy: ["pending", "requires_review", "review", "partially_captured", "in_transit", "running", "retrying", "scheduled", "sending"],
};

export function State({ is }) {
	const tone = Object.keys(tones).find((name) => tones[name].includes(is)) || "plain";
	return html`<span class="state ${tone}">${words(is)}</span>`;
}

// Fault is a problem as the API gives it, with what can be done.
export function Fault({ problem, retry }) {
	if (!problem) return null;
	const unknown = problem instanceof Problem ? "" : " This is a fault of the console.";
	return html`<div class="fault" role="alert">
		<p><strong>${problem.message}</strong>${unknown}</p>
		${problem.code && html`<p><span class="mono">${problem.code}</span>${problem.body?.request_id && html` · request <span class="mono">${problem.body.request_id}</span>`}${problem.help && html` · <a href=${problem.help} target="_blank" rel="noreferrer">What to do</a>`}</p>`}
		${retry && html`<button onClick=${retry}>Try again</button>`}
	</div>`;
}

// Loaded shows a spinner, a problem, or what was read.
export function Loaded({ of, children }) {
	if (of.problem) return html`<${Fault} problem=${of.problem} retry=${of.reload} />`;
	if (of.data === undefined) return html`<p class="loading" role="status">Loading…</p>`;
	return children(of.data);
}

// Facts is a list of names and values.
export function Facts({ rows }) {
	return html`<dl class="facts">${rows.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? html`<span class="soft">–</span>`}</dd></div>`)}</dl>`;
}

// Table shows rows. columns are {name, cell, number}; to is the page of a row. The
// first cell is the row's link, so that Tab and j/k reach it.
export function Table({ columns, rows, to, empty, label }) {
	if (!rows.length) return html`<p class="empty">${empty}</p>`;
	return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table>
		<caption class="hidden">${label}</caption>
		<thead><tr>${columns.map((c) => html`<th scope="col" class=${c.number ? "number" : ""} key=${c.name}>${c.name}</th>`)}</tr></thead>
		<tbody>${rows.map((row, i) => row.damaged ? html`<tr key=${row.id || i}><td colspan=${columns.length}><span class="state bad">damaged</span> <span class="mono">${row.id}</span> <span class="soft">Redis has it, and it cannot be read. Run tollgate check.</span></td></tr>` : html`<tr key=${row.id || i}>${columns.map((c, n) => {
			const cell = c.cell(row);
			const short = typeof cell === "string" && cell.length < 13; // a day, a word
			return html`<td class="${c.number ? "number" : ""} ${short ? "short" : ""}" key=${c.name}>${n === 0 && to && to(row) ? html`<${Link} to=${to(row)} class="row-link">${cell}</${Link}>` : cell}</td>`;
		})}</tr>`)}</tbody>
	</table></div>`;
}

// Listing is a list of the API with its own "more".
export function Listing({ list, ...table }) {
	return html`<${Fragment}>
		${(list.rows.length > 0 || (!list.loading && !list.problem)) && html`<${Table} rows=${list.rows} ...${table} />`}
		<${Fault} problem=${list.problem} retry=${list.rows.length ? list.more : list.reload} />
		${list.loading && html`<p class="loading" role="status">Loading…</p>`}
		${!list.loading && !list.problem && list.next && html`<p class="more"><button onClick=${list.more}>Show more</button> <span class="soft">${list.rows.length} shown</span></p>`}
		${!list.loading && !list.next && list.rows.length > 1 && html`<p class="more soft">${list.rows.length}, all there are</p>`}
	</${Fragment}>`;
}

// Filters is a form whose values stand in the page's query.
export function Filters({ fields, values, onChange }) {
	const submit = (event) => {
		event.preventDefault();
		onChange(Object.fromEntries(new FormData(event.currentTarget)));
	};
	return html`<form class="filters" role="search" onSubmit=${submit} onChange=${(e) => e.target.tagName === "SELECT" && e.currentTarget.requestSubmit()}>
		${fields.map((f, i) => html`<label key=${f.name}>${f.label}
			${f.options
				? html`<select name=${f.name} value=${values[f.name] || ""}><option value="">any</option>${f.options.map((o) => html`<option value=${o.value ?? o} selected=${(o.value ?? o) === values[f.name]}>${o.text || words(o.value ?? o)}</option>`)}</select>`
				: html`<input name=${f.name} type=${f.type || "text"} value=${values[f.name] || ""} placeholder=${f.hint || ""} autocomplete="off" spellcheck=${false} data-search=${i === 0 ? "" : undefined} />`}
		</label>`)}
		<button>Search</button>
		${Object.values(values).some(Boolean) && html`<button type="button" onClick=${() => onChange({})}>Clear</button>`}
	</form>`;
}

// useQuery is the page's query as an object, and what changes it.
export function useQuery() {
	const read = () => Object.fromEntries(new URLSearchParams(location.search));
	const [values, setValues] = useState(read);
	useEffect(() => {
		const again = () => setValues(read());
		addEventListener("popstate", again);
		return () => removeEventListener("popstate", again);
	}, []);
	const change = (next) => {
		const search = new URLSearchParams(Object.entries(next).filter(([, v]) => v));
		history.replaceState(null, "", location.pathname + (search.size ? `?${search}` : ""));
		setValues(Object.fromEntries(search));
	};
	return [values, change];
}

// Change is a write: a button that opens a dialog. The dialog shows what will
// change, and only its own button sends it. look asks the service what the form would
// change; then the button sends what was looked at. Sending again after a lost answer
// uses the same key, and so makes one change.
export function Change({ session, name, title, children, look, send, done, danger, disabled }) {
	const [open, setOpen] = useState(false);
	const [busy, setBusy] = useState(false);
	const [problem, setProblem] = useState(null);
	const [seen, setSeen] = useState(null);
	const key = useRef("");
	const dialog = useRef(null);
	useEffect(() => {
		if (!open) return;
		key.current = newKey();
		setProblem(null);
		setSeen(null);
		dialog.current?.showModal();
	}, [open]);
	if (!session.write) return null;
	const submit = async (event) => {
		event.preventDefault();
		const form = Object.fromEntries(new FormData(event.currentTarget));
		setBusy(true);
		setProblem(null);
		try {
			if (look && !seen) {
				setSeen(await look(form));
			} else {
				const answer = await send(form, key.current);
				setOpen(false);
				done?.(answer);
			}
		} catch (error) {
			if (error.status >= 400 && error.status < 500) key.current = newKey(); // it was refused: what comes next is another request
			setProblem(error);
		}
		setBusy(false);
	};
	return html`<${Fragment}>
		<button class=${danger ? "danger" : ""} disabled=${disabled} onClick=${() => setOpen(true)}>${name}</button>
		${open && html`<dialog ref=${dialog} aria-label=${title} onClose=${() => setOpen(false)}>
			<form onSubmit=${submit} onInput=${() => setSeen(null)}>
				<h2>${title}</h2>
				${children}
				${seen && html`<div class="seen" role="status">${seen}</div>`}
				<${Fault} problem=${problem} />
				<p class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Leave it as it is</button><button class="main" disabled=${busy}>${busy ? "Sending…" : look && !seen ? "Show what changes" : name}</button></p>
			</form>
		</dialog>`}
	</${Fragment}>`;
}

export function Json({ of, label }) {
	return html`<pre tabindex="0" aria-label=${label || "JSON"}>${JSON.stringify(of, null, 2)}</pre>`;
}
