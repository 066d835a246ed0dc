// What the browser keeps of a sandbox: the changes of its Redis, in pieces, in the
// order in which they were made.
const store = "changes";

export class State {
	constructor(database) {
		this.database = database;
	}

	static async open(name) {
		const opening = indexedDB.open(name, 1);
		opening.onupgradeneeded = () => opening.result.createObjectStore(store, { autoIncrement: true });
		const database = await resultOf(opening);
		database.onversionchange = () => database.close(); // of a tab that deletes it
		return new State(database);
	}

	// pieces are all that is kept, the oldest first.
	pieces() {
		return resultOf(this.database.transaction(store).objectStore(store).getAll());
	}

	// add keeps a piece, as the only one if it is whole. It is on disk when the promise
	// is fulfilled; after a rejection nothing has changed.
	async add(piece, whole) {
		if (this.ended) throw new Error("the sandbox starts again");
		await this.change((changes) => {
			if (whole) changes.clear();
			changes.add(piece);
		});
	}

	// replace puts another state, or none, in place of this one, to which nothing is
	// added any more.
	async replace(piece) {
		this.ended = true;
		try {
			await this.change((changes) => {
				changes.clear();
				if (piece) changes.add(piece);
			});
		} catch (error) {
			this.ended = false;
			throw error;
		}
	}

	change(make) {
		return new Promise((resolve, reject) => {
			const transaction = this.database.transaction(store, "readwrite", { durability: "strict" });
			transaction.oncomplete = () => resolve();
			transaction.onabort = () => reject(transaction.error ?? new Error("the browser keeps nothing"));
			make(transaction.objectStore(store));
		});
	}
}

function resultOf(request) {
	return new Promise((resolve, reject) => {
		request.onsuccess = () => resolve(request.result);
		request.onerror = () => reject(request.error);
	});
}
