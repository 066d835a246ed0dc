// A plot of money over something, drawn by uPlot, which is loaded when the first one
// is shown.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./parts.js";

let library = null;

function load() {
	library ||= new Promise((resolve, reject) => {
		const style = document.createElement("link");
		style.rel = "stylesheet";
		style.href = "/console/vendor/uplot.css";
		const script = document.createElement("script");
		script.src = "/console/vendor/uplot.js";
		script.onload = () => resolve(window.uPlot);
		script.onerror = () => { library = null; reject(new Error("The plot library could not be loaded.")); };
		document.head.append(style, script);
	});
	return library;
}

// color is a colour of the style sheet as a canvas can paint it: light-dark() is
// resolved.
function color(name, alpha = 1) {
	const probe = document.createElement("i");
	probe.style.color = `var(${name})`;
	document.body.append(probe);
	const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g);
	probe.remove();
	return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

const tones = ["--accent", "--second"];

// Plot draws data, [x, y1, y2 …] in numbers, as stepped lines: what is rounded to cents
// has steps. series are {label}.
export function Plot({ label, data, series, xLabel, format, xFormat, height = 260 }) {
	const place = useRef(null);
	useEffect(() => {
		let plot = null;
		let gone = false;
		load().then((UPlot) => {
			if (gone || !place.current) return;
			const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, font: "12px system-ui" };
			plot = new UPlot({
				width: place.current.clientWidth, height,
				scales: { x: { time: false } },
				axes: [{ ...axis, label: xLabel, labelFont: "12px system-ui", labelSize: 20, values: (_, list) => list.map(xFormat) }, { ...axis, size: 70, values: (_, list) => list.map(format) }],
				series: [{ label: xLabel, value: (_, v) => (v == null ? "–" : xFormat(v)) }, ...series.map((s, i) => ({
					label: s.label, stroke: color(tones[i % 2]), width: 2, dash: i % 2 ? [6, 4] : undefined,
					points: { show: false }, paths: UPlot.paths.stepped({ align: 1 }), value: (_, v) => (v == null ? "–" : format(v)),
				}))],
			}, data, place.current);
		}, () => { if (place.current) place.current.textContent = "The plot could not be loaded. The table has the same numbers."; });
		// In the next frame: a plot that grows would tell the observer again in this one.
		const resize = new ResizeObserver(() => requestAnimationFrame(() => plot && place.current && plot.setSize({ width: place.current.clientWidth, height })));
		resize.observe(place.current);
		return () => {
			gone = true;
			resize.disconnect();
			plot?.destroy();
		};
	}, [data, series]);
	return html`<figure class="plot" role="img" aria-label=${label}><div ref=${place}></div></figure>`;
}

// Bars draws groups of amounts side by side: rows are {name, values, texts}, series
// their labels.
export function Bars({ label, rows, series, height = 220 }) {
	const place = useRef(null);
	const [width, setWidth] = useState(600);
	useEffect(() => {
		const resize = new ResizeObserver(([entry]) => requestAnimationFrame(() => setWidth(Math.max(200, entry.contentRect.width))));
		resize.observe(place.current);
		return () => resize.disconnect();
	}, []);
	const most = Math.max(...rows.flatMap((r) => r.values), 0);
	const least = Math.min(...rows.flatMap((r) => r.values), 0);
	const top = 18;
	const bottom = 22;
	const y = (v) => top + ((most - v) / (most - least || 1)) * (height - top - bottom);
	const group = width / rows.length;
	const bar = Math.min(46, (group - 14) / series.length);
	const every = Math.ceil(70 / group); // names need room
	return html`<figure class="bars" ref=${place}>
		<svg width=${width} height=${height} role="img" aria-label=${label}>
			<line x1="0" x2=${width} y1=${y(0)} y2=${y(0)} class="axis" />
			${rows.map((r, n) => html`<g key=${r.name}>
				${r.values.map((v, i) => html`<rect key=${i} class=${`bar-of-${i}`} x=${group * (n + 0.5) + (i - series.length / 2) * bar} y=${Math.min(y(v), y(0))} width=${bar - 2} height=${Math.max(1, Math.abs(y(v) - y(0)))}><title>${`${r.name}, ${series[i]}: ${r.texts[i]}`}</title></rect>`)}
				${n % every === 0 && html`<text x=${group * (n + 0.5)} y=${height - 6} text-anchor="middle">${r.name}</text>`}
			</g>`)}
		</svg>
		<figcaption>${series.map((s, i) => html`<span key=${s}><svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" class=${`bar-of-${i}`} /></svg> ${s}</span>`)}</figcaption>
	</figure>`;
}
