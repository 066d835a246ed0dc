// A request is written as a curl command, and read as a shell and curl would read it.

export const understood = "Understood are one URL, -X, -H, -d, --data-raw, --data-urlencode, --json, -G, --url, quotes, $VARIABLES and a backslash at the end of a line.";

const takes = { // what the value of an option is
	"-X": "method", "--request": "method", "-H": "header", "--header": "header", "--url": "url",
	"-d": "data", "--data": "data", "--data-ascii": "data", "--data-raw": "raw", "--data-urlencode": "encoded", "--json": "json",
};
const flags = { "-G": "get", "--get": "get" };
const ignored = new Set(["-s", "-S", "-i", "-v", "--silent", "--show-error", "--include", "--verbose"]);

// What a browser sets itself, and takes from a page without a word.
const browsers = /^(accept-(charset|encoding)|access-control-.*|connection|content-length|cookie2?|date|dnt|expect|host|keep-alive|origin|permissions-policy|proxy-.*|referer|sec-.*|set-cookie|te|trailer|transfer-encoding|upgrade|via)$/i;

// parse reads a command; variables has what $NAME stands for, and requests go below
// base alone. It returns {url, method, headers, body}, or throws an Error for people:
// with variable, if it is one that has no value.
export function parse(text, variables, base) {
	const words = split(text, variables);
	if (words.shift() !== "curl") throw new Error(`A request begins with curl. ${understood}`);
	const request = { url: undefined, method: undefined, headers: [], body: undefined, get: false };
	while (words.length > 0) {
		const word = words.shift();
		if (word.startsWith("--")) {
			option(request, word, words);
		} else if (word.startsWith("-") && word.length > 1) {
			shorts(request, word, words);
		} else {
			set(request, "url", word);
		}
	}
	return finish(request, base);
}

// shorts reads what stands behind one dash: flags, and at the end perhaps an option,
// whose value may follow at once (-sXPOST).
function shorts(request, word, words) {
	for (let i = 1; i < word.length; i++) {
		const name = `-${word[i]}`;
		const rest = word.slice(i + 1);
		if (name in takes) return option(request, name, rest === "" ? words : [rest]);
		option(request, name, words);
	}
}

function option(request, name, words) {
	if (ignored.has(name)) return;
	if (name in flags) {
		request[flags[name]] = true;
	} else if (name in takes) {
		if (words.length === 0) throw new Error(`${name} has no value.`);
		set(request, takes[name], words.shift(), name);
	} else {
		throw new Error(`The option ${name} is not understood here. ${understood}`);
	}
}

function set(request, what, value, name) {
	if (value.startsWith("@") && ["header", "data", "encoded", "json"].includes(what)) {
		throw new Error(`${name} ${value} reads a file, and there are none here. Write the text itself.`);
	}
	switch (what) {
	case "url":
		if (request.url !== undefined) throw new Error(`There is a second URL: ${value}. Send one request at a time.`);
		request.url = value;
		break;
	case "method":
		request.method = value;
		break;
	case "header":
		request.headers.push(header(value));
		break;
	case "encoded":
		add(request, "&", encoded(value, name));
		break;
	case "json":
		request.json = true;
		add(request, "", value);
		break;
	default:
		add(request, "&", value);
	}
}

function add(request, separator, piece) {
	request.body = request.body === undefined ? piece : request.body + separator + piece;
}

function header(line) {
	const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/.exec(line) ?? [];
	if (!name || !value) throw new Error(`“${line}” is no header. Write it as "Name: value".`);
	if (browsers.test(name)) throw new Error(`A browser sends ${name} itself. Leave it out.`);
	return [name, value.trimEnd()];
}

// encoded is what curl makes of content, =content and name=content.
function encoded(value, name) {
	const [, key, sign, content] = /^([^=@]*)([=@]?)(.*)$/s.exec(value);
	if (sign === "@") throw new Error(`${name} ${value} reads a file, and there are none here. Write the text itself.`);
	if (sign === "") return percent(key);
	return (key === "" ? "" : `${key}=`) + percent(content);
}

function percent(text) {
	return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

function finish({ url, method, headers, body, get, json }, base) {
	if (url === undefined) throw new Error("The request has no URL.");
	if (get && body !== undefined) {
		url += (url.includes("?") ? "&" : "?") + body;
		body = undefined;
	}
	const target = URL.canParse(url) ? new URL(url).href : "";
	if (!target.startsWith(`${base}/`)) throw new Error(`Only the sandbox can be asked from here, and ${url} is not below ${base}. Begin the URL with $TOLLGATE_URL.`);
	const has = (name) => headers.some(([other]) => other.toLowerCase() === name);
	if (json && !has("accept")) headers.push(["Accept", "application/json"]);
	if ((json || body !== undefined) && !has("content-type")) {
		headers.push(["Content-Type", json ? "application/json" : "application/x-www-form-urlencoded"]);
	}
	const twice = headers.find(([name], i) => headers.findIndex(([other]) => other.toLowerCase() === name.toLowerCase()) < i);
	if (twice) throw new Error(`${twice[0]} is there twice, which a browser cannot send.`);
	method ??= body === undefined ? "GET" : "POST";
	if (!/^[A-Za-z]+$/.test(method) || /^(connect|trace|track)$/i.test(method)) throw new Error(`A browser cannot send the method ${method}.`);
	if (body !== undefined && /^(get|head)$/i.test(method)) throw new Error(`A browser sends no body with ${method}. For a query, use -G.`);
	return { url: target, method, headers, body };
}

// split makes words of a command as a shell does, without what else a shell can.
function split(text, variables) {
	text = text.trim();
	const words = [];
	let word, quote = "";
	for (let i = 0; i < text.length; i++) {
		const c = text[i];
		if (quote === "'" || (quote && c === quote)) {
			if (c === quote) quote = "";
			else word += c;
		} else if (c === "\\") {
			const next = text[++i];
			if (next === "\n") continue;
			if (next === undefined) throw new Error("The command ends with a backslash, which wants another line.");
			word = (word ?? "") + (quote && !'"\\$`'.includes(next) ? c : "") + next;
		} else if (c === "$") {
			const [found, value] = variable(text.slice(i), variables, quote);
			word = (word ?? "") + value;
			i += found - 1;
		} else if (c === "`" || (!quote && "|<>;&()".includes(c))) {
			const hint = c === "&" ? " Put a URL with & in quotes." : "";
			throw new Error(`${c} is more of a shell than there is here.${hint} ${understood}`);
		} else if (quote) {
			word += c;
		} else if (c === '"' || c === "'") {
			quote = c;
			word ??= "";
		} else if (c === "\n") {
			throw new Error("The command ends before its last line. To go on in the next line, end a line with a backslash and nothing behind it.");
		} else if (/\s/.test(c)) {
			if (word !== undefined) words.push(word);
			word = undefined;
		} else {
			word = (word ?? "") + c;
		}
	}
	if (quote) throw new Error(`A quote ${quote} is not closed.`);
	if (word !== undefined) words.push(word);
	return words;
}

// variable reads $NAME or ${NAME}: how long it is, and its value. A $ before nothing
// that could be a name is a $.
function variable(text, variables, quote) {
	const [all, bare, braced] = /^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})/.exec(text) ?? [];
	const name = bare ?? braced;
	if (!name) {
		if (/^\$[({\d@*#?$!-]/.test(text) || (!quote && /^\$['"]/.test(text))) {
			throw new Error(`${text.slice(0, 2)} is more of a shell than there is here. ${understood}`);
		}
		return [1, "$"];
	}
	if (!Object.hasOwn(variables, name) || variables[name] === undefined) {
		throw Object.assign(new Error(`$${name} has no value.`), { variable: name });
	}
	return [all.length, variables[name]];
}
