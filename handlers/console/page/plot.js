// A plot of money over something, drawn by uPlot, which is loaded when the first one
// is shown.
import { useEffect, useRef } from "preact/hooks";
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

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Plot draws data, [x, y1, y2 …] in numbers. series are {label, tone}; stepped lines
// suit what is rounded to cents, bars what is counted by day.
export function Plot({ label, data, series, xLabel, format, xFormat, bars, time, height = 260, onHover }) {
	const place = useRef(null);
	useEffect(() => {
		let plot = null;
		let gone = false;
		load().then((UPlot) => {
			if (gone || !place.current) return;
			const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, font: "12px system-ui" };
			plot = new UPlot({
				width: place.current.clientWidth, height,
				scales: { x: { time: !!time, distr: 1 } },
				axes: [{ ...axis, label: xLabel, labelFont: "12px system-ui", labelSize: 20, values: xFormat && ((_, list) => list.map(xFormat)) }, { ...axis, size: 70, values: (_, list) => list.map(format) }],
				series: [{ label: xLabel, value: (_, v) => (v == null ? "–" : (xFormat || String)(v)) }, ...series.map((s, i) => ({
					label: s.label, stroke: color(s.tone || ["--accent", "--second"][i % 2]), width: 2, dash: i % 2 ? [6, 4] : undefined,
					fill: bars ? color(s.tone || ["--accent", "--second"][i % 2]) + "55" : undefined,
					points: { show: false }, paths: bars ? UPlot.paths.bars({ size: [0.4], align: i ? 1 : -1 }) : UPlot.paths.stepped({ align: 1 }),
					value: (_, v) => (v == null ? "–" : format(v)),
				}))],
				hooks: onHover ? { setCursor: [(u) => onHover(u.cursor.idx)] } : undefined,
			}, data, place.current);
		}, () => { if (place.current) place.current.textContent = "The plot could not be loaded. The table has the same numbers."; });
		const resize = new ResizeObserver(() => plot && place.current && plot.setSize({ width: place.current.clientWidth, height }));
		resize.observe(place.current);
		return () => {
			gone = true;
			resize.disconnect();
			plot?.destroy();
		};
	}, [data, series]);
	return html`<figure class="plot" role="img" aria-label=${label}><div ref=${place}></div></figure>`;
}
