var verifier = (function(exports) {
	Object.defineProperty(exports, Symbol.toStringTag, { value: "Module" });
	// src/record/bytes.ts
	/** Says that something is not what it should be: the record, or what was handed over as one, was changed. */
	var Caught = class extends Error {};
	var encoder = new TextEncoder();
	var decoder = new TextDecoder("utf-8", {
		fatal: true,
		ignoreBOM: true
	});
	function utf8(text) {
		return encoder.encode(text);
	}
	/** Reads UTF-8 strictly; null when it is none. */
	function textOf(bytes) {
		try {
			return decoder.decode(bytes);
		} catch {
			return null;
		}
	}
	function concat(...parts) {
		const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
		let at = 0;
		for (const part of parts) {
			whole.set(part, at);
			at += part.length;
		}
		return whole;
	}
	function fromBase64(text) {
		return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
	}
	/** Reads base64 that has only one way to be written; throws `Caught` for any other. */
	function strictBase64(text, what) {
		try {
			if (typeof text !== "string") throw new Caught();
			const bytes = fromBase64(text);
			if (toBase64(bytes) === text) return bytes;
		} catch {}
		throw new Caught(`${what} is no canonical base64`);
	}
	function toBase64(bytes) {
		return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
	}
	function toHex(bytes) {
		return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
	}
	/** Reads so many bytes from lower-case hexadecimal; throws `Caught` for anything else. */
	function fromHex(text, length, what) {
		if (typeof text !== "string" || !/^(?:[0-9a-f]{2})*$/.test(text) || text.length !== 2 * length) throw new Caught(`${what} is no hexadecimal of ${length} bytes`);
		return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
	}
	function same(one, other) {
		return one.length === other.length && one.every((byte, index) => byte === other[index]);
	}
	async function sha256(bytes) {
		return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
	}
	// src/record/canonical.ts
	/** The one text of a JSON value (RFC 8785): what hashes are of. */
	/** Writes a value as it is hashed: members in the order of their names, no space, numbers as JavaScript writes them. */
	function canonical(value) {
		if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
		if (typeof value === "object" && value !== null) return `{${Object.entries(value).sort(([one], [other]) => one < other ? -1 : 1).map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(",")}}`;
		return JSON.stringify(value);
	}
	/** Reads a value from its one text; null when the text is not the one that would be written of it again. */
	function readCanonical(text) {
		try {
			const value = JSON.parse(text);
			return canonical(value) === text && !/\\u[dD]/.test(text.replaceAll("\\\\", "")) ? { value } : null;
		} catch {
			return null;
		}
	}
	var DATE = "(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
	var CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]";
	var FRACTION = "(?:\\.(?!000000)[0-9]{6})?";
	/** Is a moment that exists, as events write it. */
	var INSTANT = new RegExp(`^${DATE}T${CLOCK}\\.[0-9]{6}Z$`);
	var BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
	var TAGS = {
		$int: (text) => /^-?[1-9][0-9]{15,4299}$/.test(text) && BigInt(text) ** 2n > BigInt(Number.MAX_SAFE_INTEGER) ** 2n,
		$decimal: isDecimal,
		$datetime: (text) => new RegExp(`^${DATE}T${CLOCK}${FRACTION}Z?$`).test(text),
		$date: (text) => new RegExp(`^${DATE}$`).test(text),
		$time: (text) => new RegExp(`^${CLOCK}${FRACTION}$`).test(text),
		$duration: (text) => /^(?:0|-?[1-9][0-9]{0,19})$/.test(text) && isDuration(BigInt(text)),
		$uuid: (text) => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text),
		$bytes: (text) => new RegExp(`^${BASE64}$`).test(text),
		$redacted: (text) => /^[0-9a-f]{64}$/.test(text),
		$encrypted: (text) => new RegExp(`^${BASE64}$`).test(text) && atob(text).length >= 53 && atob(text).startsWith("")
	};
	var LARGEST_EXPONENT = 10n ** 18n - 1n;
	var SMALLEST_LAST = -2n * 10n ** 18n + 3n;
	function isDuration(microseconds) {
		const day = 86400000000n;
		return microseconds >= -999999999n * day && microseconds < 1000000000n * day;
	}
	/** Decimals have no zeros at their end, and an exponent only to save more than 20 zeros. */
	function isDecimal(text) {
		if (text === "0") return true;
		const scientific = /^-?([1-9])(?:\.([0-9]*[1-9]))?E([+-])([1-9][0-9]{0,18})$/.exec(text);
		if (scientific) {
			const exponent = BigInt(`${scientific[3]}${scientific[4]}`);
			const last = exponent - BigInt(scientific[2]?.length ?? 0);
			return (last > 20n || exponent < -21n) && exponent <= LARGEST_EXPONENT && last >= SMALLEST_LAST;
		}
		if (/^-?[1-9][0-9]*$/.test(text)) return /^-?[0-9]*?[1-9]0{0,20}$/.test(text);
		return /^-?(?:[1-9][0-9]*\.[0-9]*[1-9]|0\.0{0,20}[1-9](?:[0-9]*[1-9])?)$/.test(text);
	}
	/** Says whether a value that an event commits to is written in its one way: plain JSON, and tags for what it cannot say. */
	function isRecorded(text) {
		const read = readCanonical(text);
		return read !== null && isForm(read.value, 64);
	}
	/** Says whether an object stands for what JSON cannot say. */
	function isTagged(value) {
		const names = Object.keys(value);
		return names.length === 1 && Object.hasOwn(TAGS, names[0]);
	}
	function isForm(value, levels) {
		if (typeof value === "number") return Number.isFinite(value);
		if (typeof value !== "object" || value === null) return true;
		const members = Object.entries(value);
		if (isTagged(value)) return members.every(([tag, text]) => typeof text === "string" && TAGS[tag](text));
		if (levels === 0) return false;
		if (Array.isArray(value)) return value.every((one) => isForm(one, levels - 1));
		return members.every(([name, one]) => (!name.startsWith("$") || name.startsWith("$$")) && isForm(one, levels - 1));
	}
	var rules_default = {
		adopted: "tool_call_adopted",
		again: "again",
		approval_after: {
			"approval_denied": "denied",
			"approval_edited": "pending",
			"approval_escalated": "pending",
			"approval_expired": "expired",
			"approval_received": "approved",
			"approval_requested": "pending",
			"approval_revoked": "pending",
			"approval_stale": "stale",
			"approval_voted": "pending",
			"tool_call_canceled": "canceled",
			"tool_call_released": "approved",
			"tool_call_started": "consumed"
		},
		effect_types: [
			"approval_denied",
			"approval_edited",
			"approval_escalated",
			"approval_expired",
			"approval_revoked",
			"approval_stale",
			"approval_viewed",
			"approval_voted",
			"tool_call_adopted",
			"tool_call_canceled",
			"tool_call_in_doubt",
			"tool_call_joined",
			"tool_call_late",
			"tool_call_released"
		],
		facts_of_sheets: {
			"credential_given": "credential",
			"credential_revoked": "credential",
			"delegation_ended": "delegation",
			"delegation_given": "delegation",
			"effects_let_go": "stop",
			"effects_stopped": "stop",
			"grant_ended": "grant",
			"invitation_ended": "person",
			"passkey_added": "person",
			"passkey_removed": "person",
			"person_disallowed": "person",
			"person_invited": "person",
			"person_revoked": "person",
			"person_signed_in": "person",
			"person_signed_out": "person",
			"policy_applied": "policy",
			"provider_changed": "provider"
		},
		folds: {
			"µ": "μ",
			"ß": "ss",
			"ŉ": "ʼn",
			"ſ": "s",
			"ǰ": "ǰ",
			"ͅ": "ι",
			"ΐ": "ΐ",
			"ΰ": "ΰ",
			"ς": "σ",
			"ϐ": "β",
			"ϑ": "θ",
			"ϕ": "φ",
			"ϖ": "π",
			"ϰ": "κ",
			"ϱ": "ρ",
			"ϵ": "ε",
			"և": "եւ",
			"Ꭰ": "Ꭰ",
			"Ꭱ": "Ꭱ",
			"Ꭲ": "Ꭲ",
			"Ꭳ": "Ꭳ",
			"Ꭴ": "Ꭴ",
			"Ꭵ": "Ꭵ",
			"Ꭶ": "Ꭶ",
			"Ꭷ": "Ꭷ",
			"Ꭸ": "Ꭸ",
			"Ꭹ": "Ꭹ",
			"Ꭺ": "Ꭺ",
			"Ꭻ": "Ꭻ",
			"Ꭼ": "Ꭼ",
			"Ꭽ": "Ꭽ",
			"Ꭾ": "Ꭾ",
			"Ꭿ": "Ꭿ",
			"Ꮀ": "Ꮀ",
			"Ꮁ": "Ꮁ",
			"Ꮂ": "Ꮂ",
			"Ꮃ": "Ꮃ",
			"Ꮄ": "Ꮄ",
			"Ꮅ": "Ꮅ",
			"Ꮆ": "Ꮆ",
			"Ꮇ": "Ꮇ",
			"Ꮈ": "Ꮈ",
			"Ꮉ": "Ꮉ",
			"Ꮊ": "Ꮊ",
			"Ꮋ": "Ꮋ",
			"Ꮌ": "Ꮌ",
			"Ꮍ": "Ꮍ",
			"Ꮎ": "Ꮎ",
			"Ꮏ": "Ꮏ",
			"Ꮐ": "Ꮐ",
			"Ꮑ": "Ꮑ",
			"Ꮒ": "Ꮒ",
			"Ꮓ": "Ꮓ",
			"Ꮔ": "Ꮔ",
			"Ꮕ": "Ꮕ",
			"Ꮖ": "Ꮖ",
			"Ꮗ": "Ꮗ",
			"Ꮘ": "Ꮘ",
			"Ꮙ": "Ꮙ",
			"Ꮚ": "Ꮚ",
			"Ꮛ": "Ꮛ",
			"Ꮜ": "Ꮜ",
			"Ꮝ": "Ꮝ",
			"Ꮞ": "Ꮞ",
			"Ꮟ": "Ꮟ",
			"Ꮠ": "Ꮠ",
			"Ꮡ": "Ꮡ",
			"Ꮢ": "Ꮢ",
			"Ꮣ": "Ꮣ",
			"Ꮤ": "Ꮤ",
			"Ꮥ": "Ꮥ",
			"Ꮦ": "Ꮦ",
			"Ꮧ": "Ꮧ",
			"Ꮨ": "Ꮨ",
			"Ꮩ": "Ꮩ",
			"Ꮪ": "Ꮪ",
			"Ꮫ": "Ꮫ",
			"Ꮬ": "Ꮬ",
			"Ꮭ": "Ꮭ",
			"Ꮮ": "Ꮮ",
			"Ꮯ": "Ꮯ",
			"Ꮰ": "Ꮰ",
			"Ꮱ": "Ꮱ",
			"Ꮲ": "Ꮲ",
			"Ꮳ": "Ꮳ",
			"Ꮴ": "Ꮴ",
			"Ꮵ": "Ꮵ",
			"Ꮶ": "Ꮶ",
			"Ꮷ": "Ꮷ",
			"Ꮸ": "Ꮸ",
			"Ꮹ": "Ꮹ",
			"Ꮺ": "Ꮺ",
			"Ꮻ": "Ꮻ",
			"Ꮼ": "Ꮼ",
			"Ꮽ": "Ꮽ",
			"Ꮾ": "Ꮾ",
			"Ꮿ": "Ꮿ",
			"Ᏸ": "Ᏸ",
			"Ᏹ": "Ᏹ",
			"Ᏺ": "Ᏺ",
			"Ᏻ": "Ᏻ",
			"Ᏼ": "Ᏼ",
			"Ᏽ": "Ᏽ",
			"ᏸ": "Ᏸ",
			"ᏹ": "Ᏹ",
			"ᏺ": "Ᏺ",
			"ᏻ": "Ᏻ",
			"ᏼ": "Ᏼ",
			"ᏽ": "Ᏽ",
			"ᲀ": "в",
			"ᲁ": "д",
			"ᲂ": "о",
			"ᲃ": "с",
			"ᲄ": "т",
			"ᲅ": "т",
			"ᲆ": "ъ",
			"ᲇ": "ѣ",
			"ᲈ": "ꙋ",
			"ẖ": "ẖ",
			"ẗ": "ẗ",
			"ẘ": "ẘ",
			"ẙ": "ẙ",
			"ẚ": "aʾ",
			"ẛ": "ṡ",
			"ẞ": "ss",
			"ὐ": "ὐ",
			"ὒ": "ὒ",
			"ὔ": "ὔ",
			"ὖ": "ὖ",
			"ᾀ": "ἀι",
			"ᾁ": "ἁι",
			"ᾂ": "ἂι",
			"ᾃ": "ἃι",
			"ᾄ": "ἄι",
			"ᾅ": "ἅι",
			"ᾆ": "ἆι",
			"ᾇ": "ἇι",
			"ᾈ": "ἀι",
			"ᾉ": "ἁι",
			"ᾊ": "ἂι",
			"ᾋ": "ἃι",
			"ᾌ": "ἄι",
			"ᾍ": "ἅι",
			"ᾎ": "ἆι",
			"ᾏ": "ἇι",
			"ᾐ": "ἠι",
			"ᾑ": "ἡι",
			"ᾒ": "ἢι",
			"ᾓ": "ἣι",
			"ᾔ": "ἤι",
			"ᾕ": "ἥι",
			"ᾖ": "ἦι",
			"ᾗ": "ἧι",
			"ᾘ": "ἠι",
			"ᾙ": "ἡι",
			"ᾚ": "ἢι",
			"ᾛ": "ἣι",
			"ᾜ": "ἤι",
			"ᾝ": "ἥι",
			"ᾞ": "ἦι",
			"ᾟ": "ἧι",
			"ᾠ": "ὠι",
			"ᾡ": "ὡι",
			"ᾢ": "ὢι",
			"ᾣ": "ὣι",
			"ᾤ": "ὤι",
			"ᾥ": "ὥι",
			"ᾦ": "ὦι",
			"ᾧ": "ὧι",
			"ᾨ": "ὠι",
			"ᾩ": "ὡι",
			"ᾪ": "ὢι",
			"ᾫ": "ὣι",
			"ᾬ": "ὤι",
			"ᾭ": "ὥι",
			"ᾮ": "ὦι",
			"ᾯ": "ὧι",
			"ᾲ": "ὰι",
			"ᾳ": "αι",
			"ᾴ": "άι",
			"ᾶ": "ᾶ",
			"ᾷ": "ᾶι",
			"ᾼ": "αι",
			"ι": "ι",
			"ῂ": "ὴι",
			"ῃ": "ηι",
			"ῄ": "ήι",
			"ῆ": "ῆ",
			"ῇ": "ῆι",
			"ῌ": "ηι",
			"ῒ": "ῒ",
			"ΐ": "ΐ",
			"ῖ": "ῖ",
			"ῗ": "ῗ",
			"ῢ": "ῢ",
			"ΰ": "ΰ",
			"ῤ": "ῤ",
			"ῦ": "ῦ",
			"ῧ": "ῧ",
			"ῲ": "ὼι",
			"ῳ": "ωι",
			"ῴ": "ώι",
			"ῶ": "ῶ",
			"ῷ": "ῶι",
			"ῼ": "ωι",
			"ꭰ": "Ꭰ",
			"ꭱ": "Ꭱ",
			"ꭲ": "Ꭲ",
			"ꭳ": "Ꭳ",
			"ꭴ": "Ꭴ",
			"ꭵ": "Ꭵ",
			"ꭶ": "Ꭶ",
			"ꭷ": "Ꭷ",
			"ꭸ": "Ꭸ",
			"ꭹ": "Ꭹ",
			"ꭺ": "Ꭺ",
			"ꭻ": "Ꭻ",
			"ꭼ": "Ꭼ",
			"ꭽ": "Ꭽ",
			"ꭾ": "Ꭾ",
			"ꭿ": "Ꭿ",
			"ꮀ": "Ꮀ",
			"ꮁ": "Ꮁ",
			"ꮂ": "Ꮂ",
			"ꮃ": "Ꮃ",
			"ꮄ": "Ꮄ",
			"ꮅ": "Ꮅ",
			"ꮆ": "Ꮆ",
			"ꮇ": "Ꮇ",
			"ꮈ": "Ꮈ",
			"ꮉ": "Ꮉ",
			"ꮊ": "Ꮊ",
			"ꮋ": "Ꮋ",
			"ꮌ": "Ꮌ",
			"ꮍ": "Ꮍ",
			"ꮎ": "Ꮎ",
			"ꮏ": "Ꮏ",
			"ꮐ": "Ꮐ",
			"ꮑ": "Ꮑ",
			"ꮒ": "Ꮒ",
			"ꮓ": "Ꮓ",
			"ꮔ": "Ꮔ",
			"ꮕ": "Ꮕ",
			"ꮖ": "Ꮖ",
			"ꮗ": "Ꮗ",
			"ꮘ": "Ꮘ",
			"ꮙ": "Ꮙ",
			"ꮚ": "Ꮚ",
			"ꮛ": "Ꮛ",
			"ꮜ": "Ꮜ",
			"ꮝ": "Ꮝ",
			"ꮞ": "Ꮞ",
			"ꮟ": "Ꮟ",
			"ꮠ": "Ꮠ",
			"ꮡ": "Ꮡ",
			"ꮢ": "Ꮢ",
			"ꮣ": "Ꮣ",
			"ꮤ": "Ꮤ",
			"ꮥ": "Ꮥ",
			"ꮦ": "Ꮦ",
			"ꮧ": "Ꮧ",
			"ꮨ": "Ꮨ",
			"ꮩ": "Ꮩ",
			"ꮪ": "Ꮪ",
			"ꮫ": "Ꮫ",
			"ꮬ": "Ꮬ",
			"ꮭ": "Ꮭ",
			"ꮮ": "Ꮮ",
			"ꮯ": "Ꮯ",
			"ꮰ": "Ꮰ",
			"ꮱ": "Ꮱ",
			"ꮲ": "Ꮲ",
			"ꮳ": "Ꮳ",
			"ꮴ": "Ꮴ",
			"ꮵ": "Ꮵ",
			"ꮶ": "Ꮶ",
			"ꮷ": "Ꮷ",
			"ꮸ": "Ꮸ",
			"ꮹ": "Ꮹ",
			"ꮺ": "Ꮺ",
			"ꮻ": "Ꮻ",
			"ꮼ": "Ꮼ",
			"ꮽ": "Ꮽ",
			"ꮾ": "Ꮾ",
			"ꮿ": "Ꮿ",
			"ﬀ": "ff",
			"ﬁ": "fi",
			"ﬂ": "fl",
			"ﬃ": "ffi",
			"ﬄ": "ffl",
			"ﬅ": "st",
			"ﬆ": "st",
			"ﬓ": "մն",
			"ﬔ": "մե",
			"ﬕ": "մի",
			"ﬖ": "վն",
			"ﬗ": "մխ"
		},
		harmless: ["none", "read"],
		journal_members: {
			"journal_heartbeat": [],
			"key_registered": ["key"],
			"key_revoked": ["key", "size"],
			"key_rotated": [
				"new",
				"new_signature",
				"old",
				"old_signature"
			],
			"log_continued": ["lost", "size"],
			"writer_registered": ["key", "writer"]
		},
		late: "tool_call_late",
		late_names: ["late_error", "late_result"],
		longest_max_age: 2592e9,
		may_be_told: [
			"",
			"?",
			"active",
			"blocked",
			"failed",
			"manual_review_required"
		],
		moves: {
			"canceled|approval_viewed|canceled": {
				"always": [],
				"sometimes": []
			},
			"denied|approval_viewed|denied": {
				"always": [],
				"sometimes": []
			},
			"failed|approval_viewed|failed": {
				"always": [],
				"sometimes": []
			},
			"failed|tool_call_released|ready": {
				"always": ["reason"],
				"sometimes": []
			},
			"in_doubt|approval_requested|requires_approval": {
				"always": ["approval"],
				"only_harmless": true,
				"only_retry": true,
				"sometimes": [
					"args",
					"charges",
					"policy",
					"subject"
				]
			},
			"in_doubt|approval_viewed|in_doubt": {
				"always": [],
				"sometimes": []
			},
			"in_doubt|policy_checked|in_doubt": {
				"always": ["policy"],
				"only_retry": true,
				"sometimes": []
			},
			"in_doubt|tool_call_finished|failed": {
				"always": ["error", "evidence"],
				"sometimes": []
			},
			"in_doubt|tool_call_finished|succeeded": {
				"always": ["evidence", "result"],
				"sometimes": []
			},
			"in_doubt|tool_call_joined|in_doubt": {
				"always": [],
				"sometimes": []
			},
			"in_doubt|tool_call_released|ready": {
				"always": ["reason"],
				"sometimes": []
			},
			"in_doubt|tool_call_started|processing": {
				"adds": 1,
				"always": [],
				"only_retry": true,
				"sometimes": [
					"again",
					"approval",
					"charges",
					"grant",
					"policy",
					"subject"
				]
			},
			"processing|approval_requested|requires_approval": {
				"always": ["approval"],
				"only_harmless": true,
				"only_retry": true,
				"sometimes": [
					"args",
					"charges",
					"policy",
					"subject"
				]
			},
			"processing|approval_viewed|processing": {
				"always": [],
				"sometimes": []
			},
			"processing|policy_checked|processing": {
				"always": ["policy"],
				"only_retry": true,
				"sometimes": []
			},
			"processing|tool_call_finished|failed": {
				"always": ["error"],
				"sometimes": ["evidence"]
			},
			"processing|tool_call_finished|succeeded": {
				"always": ["result"],
				"sometimes": ["evidence"]
			},
			"processing|tool_call_in_doubt|in_doubt": {
				"always": ["reason"],
				"sometimes": []
			},
			"processing|tool_call_joined|processing": {
				"always": [],
				"sometimes": []
			},
			"processing|tool_call_released|ready": {
				"always": ["reason"],
				"sometimes": ["approval"]
			},
			"processing|tool_call_started|processing": {
				"adds": 1,
				"always": [],
				"only_retry": true,
				"sometimes": [
					"approval",
					"charges",
					"grant",
					"policy",
					"subject"
				]
			},
			"ready|approval_edited|requires_approval": {
				"always": [
					"approval",
					"args",
					"reason"
				],
				"sometimes": [
					"charges",
					"policy",
					"subject"
				]
			},
			"ready|approval_expired|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"ready|approval_requested|requires_approval": {
				"always": ["approval"],
				"sometimes": [
					"args",
					"charges",
					"policy",
					"subject"
				]
			},
			"ready|approval_revoked|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"ready|approval_stale|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"ready|approval_viewed|ready": {
				"always": [],
				"sometimes": []
			},
			"ready|policy_checked|ready": {
				"always": ["policy"],
				"sometimes": []
			},
			"ready|tool_call_canceled|canceled": {
				"always": ["reason"],
				"sometimes": ["approval"]
			},
			"ready|tool_call_joined|ready": {
				"always": [],
				"sometimes": []
			},
			"ready|tool_call_started|processing": {
				"adds": 1,
				"always": [],
				"sometimes": [
					"approval",
					"charges",
					"grant",
					"policy",
					"subject"
				]
			},
			"requires_approval|approval_denied|denied": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"requires_approval|approval_edited|requires_approval": {
				"always": [
					"approval",
					"args",
					"reason"
				],
				"sometimes": [
					"charges",
					"policy",
					"subject"
				]
			},
			"requires_approval|approval_escalated|requires_approval": {
				"always": ["approval"],
				"sometimes": []
			},
			"requires_approval|approval_expired|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"requires_approval|approval_received|ready": {
				"always": ["approval", "reason"],
				"sometimes": ["grant"]
			},
			"requires_approval|approval_requested|requires_approval": {
				"always": ["approval"],
				"sometimes": [
					"args",
					"charges",
					"policy",
					"subject"
				]
			},
			"requires_approval|approval_revoked|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"requires_approval|approval_stale|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"requires_approval|approval_viewed|requires_approval": {
				"always": [],
				"sometimes": []
			},
			"requires_approval|approval_voted|requires_approval": {
				"always": ["approval", "reason"],
				"sometimes": []
			},
			"requires_approval|policy_checked|requires_approval": {
				"always": ["policy"],
				"sometimes": []
			},
			"requires_approval|tool_call_canceled|canceled": {
				"always": ["reason"],
				"sometimes": ["approval"]
			},
			"requires_approval|tool_call_joined|requires_approval": {
				"always": [],
				"sometimes": []
			},
			"requires_approval|tool_call_started|processing": {
				"adds": 1,
				"always": ["grant"],
				"sometimes": [
					"charges",
					"policy",
					"subject"
				]
			},
			"succeeded|approval_viewed|succeeded": {
				"always": [],
				"sometimes": []
			},
			"|approval_requested|requires_approval": {
				"always": [
					"approval",
					"args",
					"key"
				],
				"sometimes": [
					"charges",
					"policy",
					"subject"
				]
			},
			"|tool_call_adopted|canceled": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"reason",
					"subject"
				]
			},
			"|tool_call_adopted|denied": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"reason",
					"subject"
				]
			},
			"|tool_call_adopted|failed": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"error",
					"subject"
				]
			},
			"|tool_call_adopted|in_doubt": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"reason",
					"subject"
				]
			},
			"|tool_call_adopted|requires_approval": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"reason",
					"subject"
				]
			},
			"|tool_call_adopted|succeeded": {
				"always": ["key", "origin"],
				"sometimes": [
					"args",
					"result",
					"subject"
				]
			},
			"|tool_call_started|processing": {
				"adds": 1,
				"always": ["args", "key"],
				"sometimes": [
					"charges",
					"grant",
					"policy",
					"subject"
				]
			}
		},
		over: ["canceled", "completed"],
		questions: {
			"approval_denied": [["pending"], "over"],
			"approval_edited": [["approved", "pending"], "pending"],
			"approval_escalated": [["pending"], "pending"],
			"approval_expired": [["approved", "pending"], "over"],
			"approval_received": [["pending"], "approved"],
			"approval_requested": [[
				"",
				"over",
				"used"
			], "pending"],
			"approval_revoked": [["approved", "pending"], "pending"],
			"approval_stale": [["approved", "pending"], "over"],
			"approval_voted": [["pending"], "pending"],
			"tool_call_canceled": [["approved", "pending"], "over"],
			"tool_call_released": [["used"], "approved"],
			"tool_call_started": [["approved"], "used"]
		},
		run_forms: {
			"": {
				"commits": [
					"",
					"payload",
					"payload,side_effect_key",
					"side_effect_key"
				],
				"facts": {
					"side_effect": { "any": [
						{ "is": "none" },
						{ "is": "read" },
						{ "is": "write" },
						{ "is": "external_mutation" },
						{ "is": "payment" },
						{ "is": "notification" },
						{ "is": "delegation" }
					] },
					"status": { "any": [{ "is": "recorded" }, { "is": "skipped" }] },
					"step": { "any": ["text", { "is": null }] }
				}
			},
			"checkpoint_sealed": {
				"commits": ["checkpoint", "checkpoint,state"],
				"facts": {
					"at": "number",
					"checkpoint": "text",
					"reason": { "any": [
						{ "is": "interruption" },
						{ "is": "failure" },
						{ "is": "approval_requested" },
						{ "is": "explicit_handoff" },
						{ "is": "periodic_safety" },
						{ "is": "risky_boundary" },
						{ "is": "manual" }
					] }
				}
			},
			"interruption_detected": {
				"commits": [""],
				"facts": { "fence": "number" }
			},
			"run_blocked": {
				"commits": ["reason,run"],
				"facts": {}
			},
			"run_canceled": {
				"commits": ["reason,run"],
				"facts": {}
			},
			"run_completed": {
				"commits": ["reason,run"],
				"facts": {}
			},
			"run_failed": {
				"commits": ["reason,run"],
				"facts": {}
			},
			"run_flagged": {
				"commits": ["reason,run"],
				"facts": {}
			},
			"run_handed_over": {
				"commits": ["reason,run"],
				"facts": {
					"to": "text",
					"until": "text"
				}
			},
			"run_resumed": {
				"commits": ["run"],
				"facts": {
					"checkpoint": { "any": ["text", { "is": null }] },
					"fence": "number"
				}
			},
			"run_started": {
				"commits": ["run"],
				"facts": {
					"fence": "number",
					"parent": { "any": ["text", { "is": null }] },
					"parent_event": { "any": ["text", { "is": null }] }
				}
			},
			"run_taken_back": {
				"commits": ["reason,run"],
				"facts": {}
			}
		},
		run_moves: {
			"active|checkpoint_sealed": "active",
			"active|interruption_detected": "active",
			"active|run_blocked": "blocked",
			"active|run_canceled": "canceled",
			"active|run_completed": "completed",
			"active|run_failed": "failed",
			"active|run_flagged": "manual_review_required",
			"active|run_handed_over": "handed_over",
			"active|run_resumed": "active",
			"blocked|checkpoint_sealed": "blocked",
			"blocked|run_blocked": "blocked",
			"blocked|run_canceled": "canceled",
			"blocked|run_completed": "completed",
			"blocked|run_failed": "failed",
			"blocked|run_flagged": "manual_review_required",
			"blocked|run_handed_over": "handed_over",
			"blocked|run_resumed": "active",
			"failed|checkpoint_sealed": "failed",
			"failed|run_blocked": "blocked",
			"failed|run_canceled": "canceled",
			"failed|run_completed": "completed",
			"failed|run_failed": "failed",
			"failed|run_flagged": "manual_review_required",
			"failed|run_handed_over": "handed_over",
			"failed|run_resumed": "active",
			"handed_over|run_canceled": "canceled",
			"handed_over|run_taken_back": "blocked",
			"manual_review_required|checkpoint_sealed": "manual_review_required",
			"manual_review_required|run_blocked": "blocked",
			"manual_review_required|run_canceled": "canceled",
			"manual_review_required|run_completed": "completed",
			"manual_review_required|run_failed": "failed",
			"manual_review_required|run_flagged": "manual_review_required",
			"manual_review_required|run_handed_over": "handed_over",
			"manual_review_required|run_resumed": "active",
			"|run_started": "active"
		},
		run_status_after: {
			"run_blocked": "blocked",
			"run_canceled": "canceled",
			"run_completed": "completed",
			"run_failed": "failed",
			"run_flagged": "manual_review_required",
			"run_handed_over": "handed_over",
			"run_resumed": "active",
			"run_started": "active",
			"run_taken_back": "blocked"
		},
		scopes: [
			"agent",
			"approver",
			"auditor",
			"admin"
		],
		scopes_of_people: [
			"approver",
			"auditor",
			"admin"
		],
		sheets: {
			"approval": { "members": {
				"args_seq": "number",
				"asked_at": "time",
				"attempt": { "any": ["number", { "is": null }] },
				"digest": "text",
				"editors": { "list": "text" },
				"effect": "text",
				"escalated": "number",
				"expires_at": "time",
				"for_run": "text",
				"grant": { "any": ["text", { "is": null }] },
				"id": "text",
				"naming": { "members": {
					"added": "text",
					"call": { "list": "text" },
					"derived_from": { "list": "text" },
					"environment": "text",
					"fields": { "any": [{ "list": "text" }, { "is": null }] },
					"is_fixed": "truth",
					"varies": { "list": "text" }
				} },
				"place": { "list": "text" },
				"policy": "text",
				"principal": { "any": ["text", { "is": null }] },
				"question": { "members": {
					"escalations": { "list": { "members": {
						"after": "number",
						"notify": { "list": "text" },
						"people": { "list": { "members": {
							"key": { "any": ["base64", { "is": null }] },
							"name": "text",
							"roles": { "list": "text" }
						} } }
					} } },
					"expires": "number",
					"is_sole_approver": "truth",
					"may_edit": "truth",
					"needs": { "list": { "members": {
						"count": "number",
						"role": { "any": ["text", { "is": null }] }
					} } },
					"needs_signature": "truth",
					"notify": { "list": "text" },
					"people": { "any": [{ "list": { "members": {
						"key": { "any": ["base64", { "is": null }] },
						"name": "text",
						"roles": { "list": "text" }
					} } }, { "is": null }] },
					"rule": "text"
				} },
				"replaces": { "any": ["text", { "is": null }] },
				"requester": { "members": {
					"id": "text",
					"kind": "text",
					"via": "text"
				} },
				"run": "text",
				"schema": "text",
				"side_effect": "text",
				"status": { "any": [
					{ "is": "pending" },
					{ "is": "approved" },
					{ "is": "denied" },
					{ "is": "expired" },
					{ "is": "canceled" },
					{ "is": "stale" },
					{ "is": "consumed" }
				] },
				"taken_back": { "list": "text" },
				"tool": "text",
				"v": { "is": 1 },
				"version": "number",
				"votes": { "list": { "members": {
					"at": "time",
					"by": "text",
					"credential": { "any": ["text", { "is": null }] },
					"delegated_with": { "any": ["text", { "is": null }] },
					"is_approval": "truth",
					"is_by_editor": "truth",
					"on_behalf_of": { "any": ["text", { "is": null }] },
					"signature": { "any": ["base64", { "is": null }] },
					"via": "text"
				} } }
			} },
			"checkpoint": { "members": {
				"at": "number",
				"created_at": "time",
				"has_state": "truth",
				"reason": { "any": [
					{ "is": "interruption" },
					{ "is": "failure" },
					{ "is": "approval_requested" },
					{ "is": "explicit_handoff" },
					{ "is": "periodic_safety" },
					{ "is": "risky_boundary" },
					{ "is": "manual" }
				] },
				"run": "text",
				"suggested": { "any": ["text", { "is": null }] },
				"v": { "is": 1 }
			} },
			"credential": { "members": {
				"created_at": "time",
				"expires_at": { "any": ["time", { "is": null }] },
				"given_by": "text",
				"hash": "text",
				"id": "text",
				"is_revoked": "truth",
				"kind": "text",
				"name": "text",
				"principal": { "any": ["text", { "is": null }] },
				"scopes": { "list": "text" },
				"v": { "is": 1 },
				"version": "number"
			} },
			"delegation": { "members": {
				"credential": { "any": ["text", { "is": null }] },
				"giver": "text",
				"id": "text",
				"is_ended": "truth",
				"to": "text",
				"until": "time",
				"v": { "is": 1 },
				"version": "number"
			} },
			"grant": { "members": {
				"approval": "text",
				"before": { "any": [{ "list": { "any": ["text", "number"] } }, { "is": null }] },
				"credential": { "any": ["text", { "is": null }] },
				"delegated_with": { "any": ["text", { "is": null }] },
				"given_by": "text",
				"id": "text",
				"is_ended": "truth",
				"on_behalf_of": { "any": ["text", { "is": null }] },
				"pin": { "any": [{ "list": "text" }, { "is": null }] },
				"pinned": "text",
				"policy": "text",
				"rule": "text",
				"schema": "text",
				"tool": "text",
				"until": "time",
				"uses_left": "number",
				"v": { "is": 1 },
				"version": "number"
			} },
			"person": { "any": [{ "members": {
				"created_at": "time",
				"id": "text",
				"invitation": { "any": [{ "members": {
					"by": "text",
					"expires_at": "time",
					"hash": "text",
					"id": "text"
				} }, { "is": null }] },
				"is_revoked": "truth",
				"name": "text",
				"passkeys": { "list": { "members": {
					"created_at": "time",
					"credential": "text",
					"name": "text",
					"public_key": "text",
					"sign_count": "number",
					"used_at": { "any": ["time", { "is": null }] }
				} } },
				"scopes": { "list": "text" },
				"sessions": { "list": { "members": {
					"created_at": "time",
					"expires_at": "time",
					"hash": "text",
					"id": "text",
					"via": { "any": [
						{ "is": "link" },
						{ "is": "passkey" },
						{ "is": "oidc" }
					] }
				} } },
				"v": { "is": 1 },
				"version": "number",
				"vouched": { "any": [{ "members": {
					"at": "time",
					"issuer": "text",
					"said": { "list": { "members": {
						"claim": "text",
						"value": "text"
					} } },
					"subject": "text"
				} }, { "is": null }] }
			} }, { "members": {
				"created_at": "time",
				"id": "text",
				"invitation": { "any": [{ "members": {
					"by": "text",
					"expires_at": "time",
					"hash": "text",
					"id": "text"
				} }, { "is": null }] },
				"is_revoked": "truth",
				"issuer": { "any": [
					"text",
					{ "members": {
						"issuer": "text",
						"subject": "text"
					} },
					{ "is": null }
				] },
				"name": "text",
				"passkeys": { "list": { "members": {
					"created_at": "time",
					"credential": "text",
					"name": "text",
					"public_key": "text",
					"sign_count": "number",
					"used_at": { "any": ["time", { "is": null }] }
				} } },
				"scopes": { "list": "text" },
				"sessions": { "list": { "members": {
					"created_at": "time",
					"expires_at": "time",
					"hash": "text",
					"id": "text",
					"via": { "any": [
						{ "is": "link" },
						{ "is": "passkey" },
						{ "is": "oidc" }
					] }
				} } },
				"v": { "is": 1 },
				"version": "number"
			} }] },
			"policy": { "members": {
				"content": "object",
				"version": "text"
			} },
			"provider": { "members": {
				"allowed": { "list": { "members": {
					"claim": "text",
					"scope": { "any": [
						{ "is": "approver" },
						{ "is": "auditor" },
						{ "is": "admin" }
					] },
					"value": "text"
				} } },
				"id": { "is": "current" },
				"issuer": { "any": ["text", { "is": null }] },
				"max_age": "number",
				"v": { "is": 1 },
				"version": "number"
			} },
			"run": { "any": [{ "members": {
				"agent": "text",
				"allowed_tools": { "any": [{ "list": "text" }, { "is": null }] },
				"checkpointing": { "members": {
					"before_risky": "truth",
					"every": { "any": ["number", { "is": null }] },
					"every_progress": { "any": ["number", { "is": null }] }
				} },
				"created_at": "time",
				"fork": { "any": [{ "members": {
					"at": "number",
					"is_dry": "truth",
					"run": "text"
				} }, { "is": null }] },
				"intent": "text",
				"parent": { "any": ["text", { "is": null }] },
				"parent_event": { "any": ["text", { "is": null }] },
				"permissions": "object",
				"runtime": "text",
				"status": { "any": [
					{ "is": "active" },
					{ "is": "blocked" },
					{ "is": "completed" },
					{ "is": "failed" },
					{ "is": "manual_review_required" },
					{ "is": "canceled" },
					{ "is": "handed_over" }
				] },
				"updated_at": "time",
				"v": { "is": 1 }
			} }, { "members": {
				"agent": "text",
				"allowed_tools": { "any": [{ "list": "text" }, { "is": null }] },
				"checkpointing": { "members": {
					"before_risky": "truth",
					"every": { "any": ["number", { "is": null }] },
					"every_progress": { "any": ["number", { "is": null }] }
				} },
				"created_at": "time",
				"fork": { "any": [{ "members": {
					"at": "number",
					"is_dry": "truth",
					"run": "text"
				} }, { "is": null }] },
				"handover": { "members": {
					"to": "text",
					"until": "time"
				} },
				"intent": "text",
				"parent": { "any": ["text", { "is": null }] },
				"parent_event": { "any": ["text", { "is": null }] },
				"permissions": "object",
				"runtime": "text",
				"status": { "any": [
					{ "is": "active" },
					{ "is": "blocked" },
					{ "is": "completed" },
					{ "is": "failed" },
					{ "is": "manual_review_required" },
					{ "is": "canceled" },
					{ "is": "handed_over" }
				] },
				"updated_at": "time",
				"v": { "is": 1 }
			} }] },
			"stop": { "members": {
				"at": "time",
				"below": { "list": { "members": {
					"at": "time",
					"by": "text",
					"kind": { "any": [
						{ "is": "moved" },
						{ "is": "lost" },
						{ "is": "forgery" },
						{ "is": "person" }
					] },
					"reason": "text"
				} } },
				"by": "text",
				"id": { "is": "effects" },
				"is_in_force": "truth",
				"kind": { "any": [
					{ "is": "moved" },
					{ "is": "lost" },
					{ "is": "forgery" },
					{ "is": "person" }
				] },
				"reason": "text",
				"v": { "is": 1 },
				"version": "number"
			} },
			"verdict": { "members": {
				"decision": { "any": [
					{ "is": "refuse" },
					{ "is": "ask" },
					{ "is": "allow" }
				] },
				"policy": "text",
				"rule": "text",
				"why": "text"
			} }
		},
		side_effects: [
			"none",
			"read",
			"write",
			"external_mutation",
			"payment",
			"notification",
			"delegation"
		],
		twins: {
			"ı": "i",
			"ɑ": "a",
			"ɡ": "g",
			"ʟ": "l",
			"α": "a",
			"β": "b",
			"γ": "y",
			"ε": "e",
			"ζ": "z",
			"η": "h",
			"ι": "i",
			"κ": "k",
			"μ": "m",
			"ν": "n",
			"ο": "o",
			"ρ": "p",
			"τ": "t",
			"υ": "y",
			"χ": "x",
			"ω": "w",
			"ϲ": "c",
			"ϳ": "j",
			"а": "a",
			"в": "b",
			"е": "e",
			"к": "k",
			"м": "m",
			"н": "h",
			"о": "o",
			"р": "p",
			"с": "c",
			"т": "t",
			"у": "y",
			"х": "x",
			"ѕ": "s",
			"і": "i",
			"ј": "j",
			"ғ": "f",
			"ү": "y",
			"һ": "h",
			"ӏ": "l",
			"ԁ": "d",
			"ԍ": "g",
			"ԛ": "q",
			"ԝ": "w",
			"զ": "q",
			"հ": "h",
			"յ": "j",
			"ո": "n",
			"ս": "u",
			"ց": "g",
			"օ": "o"
		},
		types_by_hand: [
			"approval_received",
			"approval_requested",
			"artifact_created",
			"delegation_finished",
			"delegation_started",
			"execution_requested",
			"execution_succeeded",
			"intent_proposed",
			"interruption_detected",
			"plan_locked",
			"policy_checked",
			"tool_call_finished",
			"tool_call_started"
		]
	};
	// src/record/bodies.ts
	/** Reads event bodies exactly: a body is accepted if and only if it is the one text that its content has. */
	var SHARED = [
		"actor",
		"at",
		"commits",
		"log",
		"prev",
		"run",
		"seq",
		"type",
		"v",
		"writer"
	];
	var FACT = [...SHARED, "facts"].sort().join();
	var EFFECT = [
		...SHARED,
		"attempt",
		"effect",
		"on_crash",
		"side_effect",
		"status",
		"tool"
	].sort().join();
	function isEffect(body) {
		return "effect" in body;
	}
	/** Reads a body; throws `Caught` for anything that is not exactly an event of version 1. */
	function readBody(entry) {
		const text = textOf(entry);
		const content = text === null ? null : readCanonical(text)?.value;
		const members = isObject(content) ? Object.keys(content).sort().join() : "";
		const isFact = members === FACT;
		if (!(isObject(content) && (isFact || members === EFFECT) && isShared(content) && (isFact ? isObject(content.facts) && isClear(content.facts, 64) && isPlain(content.facts) : isAboutEffect(content)))) throw new Caught("it is no event of version 1: a member is unknown, missing, or not written canonically");
		return content;
	}
	function isObject(value) {
		return typeof value === "object" && value !== null && !Array.isArray(value);
	}
	/** Whole numbers below 2^53 only: no two readers may understand one differently. */
	function isPlain(value) {
		if (typeof value === "number") return Number.isSafeInteger(value);
		if (typeof value !== "object" || value === null) return true;
		return Object.values(value).every(isPlain);
	}
	/** No name begins as tags do, which stand for what JSON cannot say, and nothing is nested too deep. */
	function isClear(value, levels) {
		if (typeof value !== "object" || value === null) return true;
		if (levels === 0 || isObject(value) && Object.keys(value).some((name) => name.startsWith("$"))) return false;
		return Object.values(value).every((part) => isClear(part, levels - 1));
	}
	var isText = (value, form) => typeof value === "string" && form.test(value);
	var isCount$1 = (value) => Number.isSafeInteger(value) && value >= 0;
	function isShared({ actor, at, commits, log, prev, run, seq, type, v, writer }) {
		const isKnown = isObject(actor) && Object.keys(actor).sort().join() === "id,kind,via" && typeof actor.id === "string" && isText(actor.kind, /^(?:agent|person|system)$/) && isText(actor.via, /^(?:process|api_key|passkey|signature|link|oidc)$/);
		const isCommitted = isObject(commits) && Object.entries(commits).every(([name, hash]) => /^[a-z_]+$/.test(name) && isText(hash, /^[0-9a-f]{64}$/));
		return isKnown && isCommitted && typeof log === "string" && typeof run === "string" && typeof type === "string" && v === 1 && isCount$1(seq) && isText(at, INSTANT) && isText(prev, /^[0-9a-f]{64}$/) && isText(writer, /^[0-9a-f]{32}$/);
	}
	function isAboutEffect({ attempt, effect, on_crash, side_effect, status, tool, type }) {
		return isText(effect, /^[A-Za-z0-9_-]+$/) && isText(tool, /^[A-Za-z0-9_.:/-]+$/) && isText(status, /^[a-z_]+$/) && isText(type, /^[a-z_]+$/) && isCount$1(attempt) && isText(on_crash, /^(?:retry|hold|resend)$/) && rules_default.side_effects.includes(side_effect);
	}
	// src/record/lives.ts
	/** The lives of effects as a journal tells them: every run dense and chained, every move one that the rules allow. */
	var MOVES$1 = rules_default.moves;
	var QUESTIONS = rules_default.questions;
	var OPEN = ["pending", "approved"];
	var ENDS = [
		"succeeded",
		"denied",
		"canceled"
	];
	var ABOUT_PERMISSION = [
		"approval",
		"grant",
		"policy"
	];
	var NOTHING = "0".repeat(64);
	var PLACES = Object.keys(MOVES$1).map((place) => place.split("|"));
	var STATUSES = new Set(PLACES.map(([, , after]) => after));
	var WORDS = /* @__PURE__ */ new Set([...PLACES.map(([, type, after]) => `${type}|${after}`), ...[...STATUSES].map((status) => `${rules_default.late}|${status}`)]);
	var OPENINGS = PLACES.filter(([before]) => before === "").map((place) => MOVES$1[place.join("|")]);
	var namesIn$1 = (body) => Object.keys(body.commits).sort();
	/** Says whether an event of this move may commit to these values; of approval and grant, where either may be, only to one. */
	function mayCommit({ always, sometimes }, names) {
		const more = names.filter((name) => !always.includes(name));
		return more.every((name) => sometimes.includes(name)) && !(more.includes("approval") && more.includes("grant")) && always.every((name) => names.includes(name));
	}
	/** Follows events in the order of the journal; throws `Caught` at the first that the rules do not allow. */
	var Lives = class {
		log;
		isWhole;
		runs = /* @__PURE__ */ new Map();
		#effects = /* @__PURE__ */ new Map();
		#questions = /* @__PURE__ */ new Map();
		/** `isWhole` says that every event from the beginning of each run is shown; else a run may have gaps. */
		constructor(log, isWhole) {
			this.log = log;
			this.isWhole = isWhole;
		}
		/** Checks one event against everything before it; gives how many gaps its run has, and how its effect stood if it tells of a permission. */
		follow(body, hash) {
			const gaps = this.#chain(body, hash);
			if (isEffect(body)) return {
				gaps,
				before: this.#move(body, gaps)
			};
			if (rules_default.effect_types.includes(body.type) || "approval" in body.commits) throw new Caught(`${body.type} names its effect, and this one does not`);
			return {
				gaps,
				before: null
			};
		}
		#chain({ log, run, seq, prev }, hash) {
			const end = this.runs.get(run) ?? {
				seq: this.isWhole || seq === 0 ? 0 : -1,
				hash: NOTHING,
				gaps: 0
			};
			let { gaps } = end;
			if (log !== this.log) throw new Caught(`it belongs to another journal: ${log}`);
			if (seq !== end.seq) {
				if (this.isWhole || seq < end.seq) throw new Caught(`an event of its run is missing or comes twice: number ${end.seq} was expected, not ${seq}`);
				if (end.seq >= 0) gaps += 1;
			} else if (prev !== end.hash) throw new Caught("it does not follow the event before it in its run, of which it names the hash");
			this.runs.set(run, {
				seq: seq + 1,
				hash,
				gaps
			});
			return gaps;
		}
		#move(body, gaps) {
			const { effect, type, status, attempt } = body;
			const names = namesIn$1(body);
			const life = this.#effects.get(effect) ?? {
				body,
				status: "",
				attempt: 0,
				gaps
			};
			if (this.isWhole || life.status !== "" && life.gaps === gaps || OPENINGS.some((move) => mayCommit(move, names))) checkMove(life, body, names);
			else if (!WORDS.has(`${type}|${status}`) || names.includes("approval") && !(type in QUESTIONS)) throw new Caught(`no ${type} leads to ${status}`);
			else this.#questions.set(effect, "?");
			const isAbout = this.#questions.has(effect) || names.some((name) => ABOUT_PERMISSION.includes(name));
			const question = this.#questions.get(effect) ?? "";
			const after = nextQuestion(question, type, names, life.status);
			if (after === null) throw new Caught(`${type} does not fit the approval of its effect`);
			if (after !== "") this.#questions.set(effect, after);
			for (const name of [
				"run",
				"tool",
				"side_effect",
				"on_crash"
			]) if (!ENDS.includes(life.status) && life.body[name] !== body[name]) throw new Caught(`its effect changed its ${name}`);
			this.#effects.set(effect, {
				body: life.body,
				status,
				attempt,
				gaps
			});
			return isAbout ? {
				status: life.status,
				question
			} : null;
		}
	};
	function checkMove(life, { type, status, attempt, on_crash, side_effect }, names) {
		const move = MOVES$1[`${life.status}|${type}|${status}`];
		if (!move) return checkLate(life, type, status, attempt, names);
		if (!mayCommit(move, names)) throw new Caught(`${type} does not commit to (${names.join(", ")})`);
		if (attempt !== life.attempt + (move.adds ?? 0) && type !== rules_default.adopted) throw new Caught(`its attempt is wrong: ${attempt}`);
		if (move.only_retry && on_crash === "hold" && !names.includes(rules_default.again)) throw new Caught(`the effect was entered again while ${life.status}, though its tool holds when in doubt`);
		if (move.only_harmless && !rules_default.harmless.includes(side_effect)) throw new Caught(`a person was asked about an effect that is ${life.status}: it may have happened`);
	}
	function checkLate(life, type, status, attempt, names) {
		if (type !== rules_default.late || status !== life.status) throw new Caught(`no ${type} leads from ${life.status || "nothing"} to ${status}`);
		if (!(rules_default.late_names.includes(names.join()) && attempt === life.attempt && attempt >= (status === "processing" ? 2 : 1))) throw new Caught("a late report changes nothing and commits to what came late");
	}
	/** Says how the question about an effect stands after a legal move; null when the question does not allow it. */
	function nextQuestion(question, type, names, status) {
		if (names.includes("approval")) {
			if (type === "tool_call_started" && question === "used" && status !== "ready") return "used";
			const [befores, after] = QUESTIONS[type];
			return befores.includes(question) || question === "?" ? after : null;
		}
		if (question === "?") return "?";
		if (type === "tool_call_started") {
			if (names.includes("grant") && !OPEN.includes(question)) return "over";
			return question === "" ? "" : null;
		}
		if (type === "tool_call_canceled") return OPEN.includes(question) ? null : question;
		return type === "approval_viewed" && question === "" ? null : question;
	}
	// src/record/merkle.ts
	/** The tree of RFC 6962, grown leaf by leaf: what is kept is one hash per full subtree, so memory stays small. */
	var LEAF = Uint8Array.of(0);
	var NODE = Uint8Array.of(1);
	function leafHash(entry) {
		return sha256(concat(LEAF, entry));
	}
	function nodeHash(left, right) {
		return sha256(concat(NODE, left, right));
	}
	/** Computes the root that a proof of inclusion leads to (RFC 9162, 2.1.3.2); null when the proof has a wrong length. */
	async function rootByInclusion(leaf, index, size, proof, hashed = nodeHash) {
		if (index >= size) return null;
		let [place, last, root] = [
			index,
			size - 1,
			leaf
		];
		for (const sibling of proof) {
			if (last === 0) return null;
			if (place % 2 === 1 || place === last) {
				root = await hashed(sibling, root);
				while (place % 2 === 0 && place !== 0) [place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
			} else root = await hashed(root, sibling);
			[place, last] = [Math.floor(place / 2), Math.floor(last / 2)];
		}
		return last === 0 ? root : null;
	}
	// src/record/payloads.ts
	/** Compares disclosed values with what events committed to, and accounts for those that are not there. */
	var TAG = utf8("indelible/commit/v1\0");
	var BASES = [
		"request",
		"subject",
		"retention"
	];
	async function commitmentOf({ salt, field, value }) {
		const name = utf8(field);
		return toHex(await sha256(concat(TAG, salt, Uint8Array.of(name.length >> 8, name.length & 255), name, value)));
	}
	/** Says whether a value is written in its one way; a key is a hash, and the name of a side effect bare text. */
	function isWrittenRight({ field, value }) {
		if (field === "key") return value.length === 32;
		const text = textOf(value);
		return text !== null && (field === "side_effect_key" || isRecorded(text));
	}
	/** Counts values that are absent, and explains them: erased by an event, withheld, or missing. */
	var Tally = class {
		#absent = /* @__PURE__ */ new Map();
		#count = 0;
		#named = 0;
		#erased = 0;
		/** Takes in which values of an event are here. */
		take({ run, seq, commits }, shown) {
			const lacking = Object.keys(commits).filter((name) => !shown.includes(name));
			this.#count += lacking.length;
			if (lacking.length > 0) this.#absent.set(placeOf(run, seq), new Set(lacking));
		}
		/** Takes in which values a `payload_erased` event says are gone; throws `Caught` for anything malformed. */
		erase(run, facts) {
			const { basis, erased } = facts;
			if (Object.keys(facts).sort().join() !== "basis,erased" || !BASES.includes(basis) || !Array.isArray(erased)) throw new Caught("a payload_erased says on what basis and what was erased");
			for (const one of erased) {
				if (!(isObject(one) && Object.keys(one).sort().join() === "fields,seq" && Number.isSafeInteger(one.seq) && Array.isArray(one.fields) && one.fields.every((name) => typeof name === "string"))) throw new Caught("a payload_erased names numbers of events and fields");
				const fields = one.fields;
				this.#named += fields.length;
				const left = this.#absent.get(placeOf(run, one.seq));
				for (const name of new Set(fields)) if (left?.delete(name)) this.#erased += 1;
			}
		}
		/** Throws `Caught` when more is withheld than is absent, or a whole journal lacks what was neither erased nor withheld. */
		close(withheld, isWhole) {
			if (withheld > this.#count) throw new Caught(`more values are said to be withheld than are absent: ${withheld} of ${this.#count}`);
			const erased = isWhole && withheld > 0 ? Math.min(this.#named, this.#count - withheld) : this.#erased;
			if (isWhole && this.#count - erased > withheld) throw new Caught("values are missing that no event erased and nobody withheld");
		}
	};
	var placeOf = (run, seq) => `${seq} ${run}`;
	/** One key, one effect: at most one effect was ever entered under a key, where keys are shown. */
	var OneKey = class {
		#entered = /* @__PURE__ */ new Map();
		#waiting = /* @__PURE__ */ new Map();
		take(body, key) {
			if (!isEffect(body)) return;
			const { effect, attempt, status } = body;
			if (key) this.#waiting.set(effect, toHex(key));
			const found = this.#waiting.get(effect);
			if (found === void 0) return;
			if (attempt > 0) {
				if ((this.#entered.get(found) ?? effect) !== effect) throw new Caught("its key has another effect already, and both were entered: at most one may be");
				this.#entered.set(found, effect);
			}
			if (attempt > 0 || status === "denied" || status === "canceled") this.#waiting.delete(effect);
		}
	};
	// src/record/identity.ts
	/** What a call's key and digest are made of, computed here: nobody has to believe which fields made two calls the same. */
	async function hashed$1(tag, ...parts) {
		const pieces = [utf8(tag), Uint8Array.of(0)];
		for (const part of parts) {
			const raw = typeof part === "string" ? utf8(part) : part;
			const size = /* @__PURE__ */ new Uint8Array(4);
			new DataView(size.buffer).setUint32(0, raw.length);
			pieces.push(size, raw);
		}
		return toHex(await sha256(concat(...pieces)));
	}
	// src/record/labels.ts
	/** The letters that a label of a domain stands for (RFC 3492: `xn--bcher-kva` is `bücher`), or null. */
	var LONGEST_LABEL = 63;
	function lettersOf(label) {
		if (!label.startsWith("xn--") || label.length > LONGEST_LABEL || !/^[\x00-\x7f]*$/.test(label)) return null;
		const coded = label.slice(4);
		const plain = Math.max(coded.lastIndexOf("-"), 0);
		const letters = Array.from(coded.slice(0, plain), (letter) => letter.codePointAt(0));
		let at = plain > 0 ? plain + 1 : 0;
		let [point, place, bias] = [
			128,
			0,
			72
		];
		while (at < coded.length) {
			const before = place;
			for (let [weight, step] = [1, 36];; step += 36) {
				const digit = digitOf(coded[at++]);
				if (digit === null) return null;
				place += digit * weight;
				const threshold = Math.min(Math.max(step - bias, 1), 26);
				if (digit < threshold) break;
				weight *= 36 - threshold;
			}
			bias = biasAfter(place - before, letters.length + 1, letters.length === plain);
			point += Math.floor(place / (letters.length + 1));
			place %= letters.length + 1;
			if (point > 1114111 || point >= 55296 && point <= 57343) return null;
			letters.splice(place++, 0, point);
		}
		return letters.length > plain ? String.fromCodePoint(...letters) : null;
	}
	function digitOf(letter) {
		if (letter === void 0) return null;
		if (/[a-z]/i.test(letter)) return letter.toLowerCase().charCodeAt(0) - 97;
		return /[0-9]/.test(letter) ? Number(letter) + 26 : null;
	}
	function biasAfter(delta, size, isFirst) {
		let rest = Math.floor(delta / (isFirst ? 700 : 2));
		rest += Math.floor(rest / size);
		let bias = 0;
		for (; rest > 455; bias += 36) rest = Math.floor(rest / 35);
		return bias + Math.floor(36 * rest / (rest + 38));
	}
	// src/record/names.ts
	/** People's names: when two of them are one person's, and when one could be taken for another (docs/reference/permissions.md). */
	var FOLDS = rules_default.folds;
	var TWINS = rules_default.twins;
	var DRAWS_NOTHING = /[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;
	var SEEN = /[^\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;
	var MOST_LETTERS = 500;
	/** Says whether a text can name an actor, a person or a credential. */
	function isName(text) {
		return SEEN.test(text) && [...text].length <= MOST_LETTERS && !text.includes("\0");
	}
	function folded(name) {
		const plain = foldedText(name);
		const at = plain.lastIndexOf("@");
		if (at < 0) return plain;
		const labels = plain.slice(at + 1).replaceAll("。", ".").replace(/[. ]+$/, "").split(".");
		return `${plain.slice(0, at)}@${labels.map(foldedLabel).join(".")}`;
	}
	function foldedText(text) {
		const drawn = text.replace(DRAWS_NOTHING, "").normalize("NFKC");
		const plain = Array.from(drawn, (letter) => FOLDS[letter] ?? letter.toLowerCase()).join("").normalize("NFKC").split(/\p{Z}+/u).filter(Boolean).join(" ");
		return plain === text ? plain : foldedText(plain);
	}
	function foldedLabel(label) {
		const letters = foldedText(lettersOf(label) ?? "");
		return letters === "" || letters.startsWith("xn--") || /[.\u3002@ ]/.test(letters) ? label : letters;
	}
	var shapeOf = (name) => Array.from(folded(name), (letter) => TWINS[letter] ?? letter).join("");
	/** Case, width, composition and what nobody sees do not make two people of one. */
	var samePerson = (one, other) => folded(one) === folded(other);
	/** This takes rights away and gives none: a name that only looks like another one is not that person's. */
	var looksLike = (one, other) => shapeOf(one) === shapeOf(other);
	// src/record/sheets.ts
	/** Reads what events commit to, exactly: approvals, grants, people, runs, checkpoints, verdicts (docs/reference/permissions.md). */
	var SHAPES = rules_default.sheets;
	var MOST_NEEDED = 100;
	var KINDS = [
		"agent",
		"person",
		"system"
	];
	var VIAS = [
		"process",
		"api_key",
		"passkey",
		"signature",
		"link",
		"oidc"
	];
	var AMOUNT = /^-?[0-9]+(?:\.[0-9]+)?(?:E[+-][0-9]+)?$/;
	/** Says whether a value has a shape: a kind, a value, or, made of shapes, a choice, a list or an object. */
	function fits(value, shape) {
		if (shape === "text") return typeof value === "string";
		if (shape === "time") return typeof value === "string" && INSTANT.test(value);
		if (shape === "base64") return isBase64(value);
		if (shape === "number") return Number.isSafeInteger(value);
		if (shape === "truth") return typeof value === "boolean";
		if (typeof shape === "string") return isObject(value) && !isTagged(value);
		if ("any" in shape) return shape.any.some((one) => fits(value, one));
		if ("list" in shape) return Array.isArray(value) && value.every((one) => fits(one, shape.list));
		if ("is" in shape) return value === shape.is;
		const names = Object.keys(shape.members);
		return isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name) && fits(value[name], shape.members[name]));
	}
	function isBase64(value) {
		try {
			strictBase64(value, "");
			return true;
		} catch {
			return false;
		}
	}
	function read(kind, value, isGood = () => true) {
		const content = JSON.parse(new TextDecoder().decode(value));
		if (!fits(content, SHAPES[kind]) || !isGood(content)) throw new Caught(`its ${kind} is none of version 1: a member is unknown, missing, or cannot be`);
		return content;
	}
	var readApproval = (value) => read("approval", value, isApproval);
	var readGrant = (value) => read("grant", value, ({ before }) => before === null || before.length === 2);
	var readDelegation = (value) => read("delegation", value, ({ giver, to }) => !samePerson(giver, to));
	var readStop = (value) => read("stop", value);
	var readVerdict = (value) => read("verdict", value);
	var readPolicy = (value) => read("policy", value);
	var readCheckpoint = (value) => read("checkpoint", value);
	var readProvider = (value) => read("provider", value, ({ max_age }) => max_age > 0 && max_age <= rules_default.longest_max_age);
	var readPerson = (value) => read("person", value, ({ name, scopes }) => isName(name) && areScopes(scopes, rules_default.scopes_of_people));
	var readCredential = (value) => read("credential", value, ({ kind, name, principal, scopes }) => {
		const isApart = kind === "agent" ? scopes.every((one) => one === "agent") : kind !== "person" || !scopes.includes("agent");
		return isName(name) && (principal === null || isName(principal)) && areScopes(scopes, rules_default.scopes) && isApart;
	});
	var readRun = (value) => read("run", value, ({ checkpointing: { every, every_progress } }) => (every ?? 1) > 0 && (every_progress ?? 1) > 0);
	/** Gives the reservations that charges tell of, as budget and number; throws `Caught` unless they are charges. */
	function readReservations(value) {
		const content = JSON.parse(new TextDecoder().decode(value));
		const isCharge = (one) => Array.isArray(one) && (one.length === 4 || one.length === 5) && typeof one[0] === "string" && one.slice(1, 3).every((text) => typeof text === "string" && AMOUNT.test(text)) && one.slice(3).every(Number.isSafeInteger) && one.at(-1) > 0;
		if (!Array.isArray(content) || !content.every(isCharge)) throw new Caught("its charges are none: each has a name, an amount, a limit, a window, and maybe a number");
		return content.filter((one) => one.length === 5).map((one) => [one[0], one[4]]);
	}
	var areScopes = (scopes, known) => scopes.length > 0 && scopes.every((one) => known.includes(one));
	function isApproval({ asked_at, digest, place, question, requester }) {
		return isName(requester.id) && KINDS.includes(requester.kind) && VIAS.includes(requester.via) && place.length === 3 && /^[0-9a-f]{64}$/.test(digest) && isQuestion(question) && later(asked_at, question.expires) !== null;
	}
	function isQuestion({ escalations, expires, needs, people }) {
		const isNeeded = needs.length > 0 && needs.every((need) => need.count >= 1) && needs.reduce((sum, need) => sum + need.count, 0) <= MOST_NEEDED;
		const times = escalations.map((step) => step.after);
		const areLater = times.every((after, step) => after > 0 && after >= (times[step - 1] ?? 0));
		return isNeeded && expires > 0 && areLater && [people ?? [], ...escalations.map((step) => step.people)].every(areInOrder);
	}
	/** People stand in the order of their names, by code points, each once. */
	function areInOrder(people) {
		return people.every((one, at) => at === 0 || isBefore(utf8(people[at - 1].name), utf8(one.name)));
	}
	function isBefore(one, other) {
		const at = one.findIndex((byte, index) => byte !== other[index]);
		return at < 0 ? one.length < other.length : at < other.length && one[at] < other[at];
	}
	var DAY = 864e8;
	/** Returns the moment so many microseconds after another, as events write it; null when no calendar has it. */
	function later(at, microseconds) {
		const midnight = Date.UTC(2e3, Number(at.slice(5, 7)) - 1, Number(at.slice(8, 10)));
		const start = new Date(midnight).setUTCFullYear(Number(at.slice(0, 4)), Number(at.slice(5, 7)) - 1, Number(at.slice(8, 10)));
		const [hours, minutes, seconds] = [
			at.slice(11, 13),
			at.slice(14, 16),
			at.slice(17, 19)
		].map(Number);
		const within = BigInt(((hours * 60 + minutes) * 60 + seconds) * 1e6 + Number(at.slice(20, 26))) + BigInt(microseconds);
		const days = Number(within / BigInt(DAY));
		const rest = Number(within % BigInt(DAY));
		const day = new Date(start + days * 864e5);
		if (Number.isNaN(day.getTime()) || day.getUTCFullYear() > 9999) return null;
		const pad = (number, width) => String(Math.floor(number)).padStart(width, "0");
		return `${`${pad(day.getUTCFullYear(), 4)}-${pad(day.getUTCMonth() + 1, 2)}-${pad(day.getUTCDate(), 2)}`}T${pad(rest / 36e8, 2)}:${pad(rest / 6e7 % 60, 2)}:${pad(rest / 1e6 % 60, 2)}.${pad(rest % 1e6, 6)}Z`;
	}
	// src/record/curve.ts
	/** Which public keys one person can hold: points of the large prime-order group of Ed25519, written in one way. */
	var P = 2n ** 255n - 19n;
	var ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
	var modP = (number) => (number % P + P) % P;
	function power(root, exponent) {
		let result = 1n;
		for (let square = modP(root); exponent > 0n; exponent >>= 1n, square = modP(square * square)) if (exponent & 1n) result = modP(result * square);
		return result;
	}
	var D = modP(-121665n * power(121666n, P - 2n));
	function plus([x1, y1, z1, t1], [x2, y2, z2, t2]) {
		const [a, b] = [modP((y1 - x1) * (y2 - x2)), modP((y1 + x1) * (y2 + x2))];
		const [c, d] = [modP(2n * t1 * t2 * D), modP(2n * z1 * z2)];
		const [e, f, g, h] = [
			b - a,
			d - c,
			d + c,
			b + a
		];
		return [
			modP(e * f),
			modP(g * h),
			modP(f * g),
			modP(e * h)
		];
	}
	function isNeutralAfter(count, point) {
		let total = [
			0n,
			1n,
			1n,
			0n
		];
		for (; count > 0n; count >>= 1n, point = plus(point, point)) if (count & 1n) total = plus(total, point);
		return modP(total[0]) === 0n && modP(total[1] - total[2]) === 0n;
	}
	/** A key outside of the group lets one signature fit many messages: such a key is nobody's. */
	function isWeak(raw) {
		if (raw.length !== 32) return true;
		const number = BigInt(`0x${toHex(Uint8Array.from(raw).reverse())}`);
		const [y, sign] = [number & 2n ** 255n - 1n, number >> 255n];
		if (y >= P) return true;
		const square = modP((y * y - 1n) * power(D * y * y + 1n, P - 2n));
		let x = power(square, (P + 3n) / 8n);
		if (modP(x * x - square) !== 0n) x = modP(x * power(2n, (P - 1n) / 4n));
		if (modP(x * x - square) !== 0n || x === 0n) return true;
		if ((x & 1n) !== sign) x = P - x;
		const point = [
			x,
			y,
			1n,
			modP(x * y)
		];
		return isNeutralAfter(8n, point) || !isNeutralAfter(ORDER, point);
	}
	/** Says whether a signature is this key's over a message. */
	async function verifies(raw, signature, message) {
		const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
		return signature.length === 64 && await crypto.subtle.verify("Ed25519", key, signature, message);
	}
	// src/record/votes.ts
	/** Who may decide an approval, whose votes count, and when they are enough (docs/reference/permissions.md). */
	var namesIn = ({ by, on_behalf_of }) => on_behalf_of === null ? [by] : [by, on_behalf_of];
	var find = (people, name) => people.find((one) => samePerson(one.name, name));
	var isNeeded = ({ roles }, { needs }) => needs.some(({ role }) => role === null || roles.includes(role));
	/** Names those who may decide now, those included to whom it was escalated; null lets everybody. */
	function peopleOf({ question, escalated }) {
		if (question.people === null) return null;
		const people = new Map(question.people.map((one) => [one.name, one]));
		for (const step of question.escalations.slice(0, escalated)) for (const one of step.people) people.set(one.name, one);
		return [...people.values()];
	}
	/** Says why this person may not decide it, whatever its status; null if they may. */
	async function whyNotThey(approval, vote, kind) {
		const { question, requester, principal, editors, taken_back, votes } = approval;
		const people = peopleOf(approval);
		if (kind !== "person") return `is decided by people, and ${vote.by} is ${kind}`;
		const entitled = vote.on_behalf_of ?? vote.by;
		for (const name of [vote.by, entitled]) {
			if (looksLike(name, requester.id) || principal !== null && looksLike(name, principal)) return `was asked for by ${name}, who therefore cannot decide it`;
			if (votes.some((earlier) => namesIn(earlier).some((one) => looksLike(name, one)))) return `was already decided by ${name}`;
		}
		const key = keyOf(people, vote.by);
		const hasThisKey = (name) => key !== null && keyOf(people, name) === key;
		if (votes.some((earlier) => hasThisKey(earlier.by))) return `was already decided with the key of ${vote.by}`;
		const person = people === null ? null : find(people, entitled);
		if (person === void 0 || person !== null && !isNeeded(person, question)) return `is not for ${entitled} to decide`;
		if (vote.is_approval && isEditor(editors, vote) && !isSoleApprover(approval, people ?? [])) return `was edited by ${vote.by}, who therefore cannot approve it`;
		if (vote.is_approval && taken_back.some((name) => samePerson(vote.by, name) || hasThisKey(name))) return `was signed by ${vote.by}, who took that back`;
		return whyNotSigned(approval, vote, key);
	}
	var keyOf = (people, name) => find(people ?? [], name)?.key ?? null;
	var isEditor = (editors, vote) => namesIn(vote).some((name) => editors.some((editor) => looksLike(name, editor)));
	function isSoleApprover({ question, requester, principal }, people) {
		const able = people.filter((one) => isNeeded(one, question) && ![requester.id, principal ?? requester.id].some((asker) => looksLike(one.name, asker)));
		return question.is_sole_approver && able.length === 1;
	}
	async function whyNotSigned({ digest, question }, vote, key) {
		if (vote.signature === null) return question.needs_signature ? `needs the signature of ${vote.by}` : null;
		const message = concat(utf8("indelible/vote/v1\0"), fromHex(digest, 32, "its digest"), Uint8Array.of(vote.is_approval ? 1 : 0));
		const raw = key === null ? null : fromBase64(key);
		return raw !== null && !isWeak(raw) && await verifies(raw, fromBase64(vote.signature), message) ? null : `carries a signature that is not ${vote.by}'s over what was shown`;
	}
	/** Counts a vote by the rules: gives the approval after it, or says why it does not count. */
	async function voted(approval, vote, kind) {
		if (approval.status !== "pending") return `cannot be decided: it is ${approval.status}`;
		if (approval.expires_at <= vote.at) return `expired at ${approval.expires_at}`;
		const why = await whyNotThey(approval, vote, kind);
		if (why !== null) return why;
		const votes = [...approval.votes, {
			...vote,
			is_by_editor: isEditor(approval.editors, vote)
		}];
		const counted = {
			...approval,
			version: approval.version + 1,
			votes
		};
		if (!vote.is_approval) return {
			...counted,
			status: "denied"
		};
		return await lacking(counted) === 0 ? {
			...counted,
			status: "approved"
		} : counted;
	}
	/** Gives how many approvals are lacking when every vote is looked at again; each voter fills one place at most. */
	async function lacking(approval) {
		let counted = {
			...approval,
			votes: []
		};
		for (const vote of approval.votes) if (vote.at < approval.expires_at && await whyNotThey(counted, vote, "person") === null) counted = {
			...counted,
			votes: [...counted.votes, vote]
		};
		const people = peopleOf(approval);
		const voters = counted.votes.filter((vote) => vote.is_approval).map((vote) => people === null ? null : find(people, vote.on_behalf_of ?? vote.by)?.roles ?? []);
		const places = approval.question.needs.flatMap(({ count, role }) => Array(count).fill(role));
		const filled = /* @__PURE__ */ new Map();
		const place = (voter, tried) => places.some((role, number) => {
			const roles = voters[voter] ?? null;
			if (tried.has(number) || !(role === null || roles === null || roles.includes(role))) return false;
			tried.add(number);
			if (filled.has(number) && !place(filled.get(number), tried)) return false;
			filled.set(number, voter);
			return true;
		});
		return places.length - voters.filter((_, voter) => place(voter, /* @__PURE__ */ new Set())).length;
	}
	// src/record/permissions.ts
	/** The permissions that calls ran on, as a journal tells them: verdicts, approvals, grants, delegations (docs/reference/permissions.md). */
	var STATUS_AFTER$1 = rules_default.approval_after;
	var FACTS_OF_SHEETS = rules_default.facts_of_sheets;
	var VOTES = [
		"approval_voted",
		"approval_received",
		"approval_denied"
	];
	var JUDGED = [
		"approval_requested",
		"approval_edited",
		"tool_call_started"
	];
	var LAST = [
		"succeeded",
		"denied",
		"canceled"
	];
	var ENCRYPTED = "{\"$encrypted\":";
	var isSame = (one, other) => canonical(one) === canonical(other);
	var isOver = ({ is_ended, uses_left }) => is_ended || uses_left < 1;
	var tenantOf = (log) => unquoted(log.slice(log.indexOf("/") + 1 || log.length));
	var unquoted = (text) => text.replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => new TextDecoder().decode(Uint8Array.from(run.match(/[^%]{2}/g), (pair) => Number.parseInt(pair, 16))));
	/** Is a set of numbers from 1 that come one after the other but for a few, in little room. */
	var Numbers = class {
		#next = 1;
		#later = /* @__PURE__ */ new Set();
		/** Adds a number; says whether it was not there. */
		add(number) {
			if (number < this.#next || this.#later.has(number)) return false;
			this.#later.add(number);
			while (this.#later.delete(this.#next)) this.#next += 1;
			return true;
		}
	};
	/** Takes in what a journal tells of permissions; throws `Caught` at the first that does not hold. */
	var Permissions = class {
		isWhole;
		#asked = /* @__PURE__ */ new Map();
		#grants = /* @__PURE__ */ new Map();
		#delegations = [];
		#delegated = [];
		#reserved = /* @__PURE__ */ new Map();
		#unshown = /* @__PURE__ */ new Set();
		/** `isWhole` says that every event of every run is shown. */
		constructor(isWhole) {
			this.isWhole = isWhole;
		}
		/** Takes in an event about an effect that says something of a permission. */
		async take(event, before, shown) {
			if (!isName(event.actor.id)) throw new Caught("its actor has no name");
			const judged = shown.get("policy");
			const verdict = judged ? readVerdict(judged) : null;
			if (verdict) checkVerdict(event, before, verdict.decision);
			const charges = shown.get("charges");
			for (const [budget, number] of charges ? readReservations(charges) : []) {
				const taken = this.#reserved.get(budget) ?? new Numbers();
				this.#reserved.set(budget, taken);
				if (!taken.add(number)) throw new Caught(`another event took reservation ${number} of ${budget} too: an older row was put back`);
			}
			const policy = verdict ? verdict.policy : "policy" in event.commits ? null : "";
			const known = this.#known(event, before, shown);
			if ("approval" in event.commits) await this.#takeApproval(event, known, policy, shown.get("approval"));
			if ("grant" in event.commits) await this.#takeGrant(event, known, policy, shown.get("grant"));
			if (LAST.includes(event.status)) this.#asked.delete(event.effect);
		}
		/** Gives what is known of the question about an effect, its newest arguments included. */
		#known({ commits, effect, seq }, { question }, shown) {
			let known = this.#asked.get(effect);
			if (!known || question === "?") known = {
				wasAsked: question !== "",
				approval: null,
				args: null,
				argsSeq: null,
				key: null
			};
			const key = shown.get("key");
			if (key) known.key = toHex(key);
			if ("args" in commits) Object.assign(known, {
				args: shown.get("args") ?? null,
				argsSeq: seq
			});
			if ("approval" in commits) this.#asked.set(effect, known);
			return known;
		}
		async #takeApproval(event, known, policy, shown) {
			const { approval: before, wasAsked } = known;
			Object.assign(known, {
				approval: null,
				wasAsked: true
			});
			if (!shown) return;
			const found = known.approval = readApproval(shown);
			checkAbout(event, found, known.key);
			if (event.type === "approval_requested") checkAsked(event, found, before ? before.id : wasAsked ? found.replaces : null, before ? before.editors : found.editors);
			else if (before) checkSame(await follows(event, before, found), found);
			else await recount(event, found);
			if (["approval_requested", "approval_edited"].includes(event.type)) await checkArgs(found, known);
			if (["approved", "consumed"].includes(found.status) && await lacking(found) > 0) throw new Caught(`${found.id} counts as ${found.status}, and some of the needed approvals are lacking`);
			if (JUDGED.includes(event.type) && policy !== null && policy !== found.policy) throw new Caught("its approval is bound to another policy than judged it");
			for (const vote of found.votes.slice(before ? before.votes.length : 0)) if (vote.on_behalf_of !== null) this.#delegated.push({
				giver: vote.on_behalf_of,
				vote
			});
		}
		/** Takes in a grant that was given with an approval, or that a call used. */
		async #takeGrant(event, known, policy, shown) {
			if (!shown) {
				this.#unshown.add("grant");
				return;
			}
			const grant = readGrant(shown);
			if (event.type === "approval_received") checkGiven(event, grant, known.approval);
			else if (policy !== null && policy !== grant.policy) throw new Caught("its grant holds for another policy");
			if (grant.tool !== event.tool) throw new Caught("its grant is for another tool");
			await checkPinned(grant, known.args, event);
			this.#keep(grant, [event.run, event.seq]);
		}
		#keep(grant, place) {
			const versions = this.#grants.get(grant.id) ?? /* @__PURE__ */ new Map();
			if (versions.has(grant.version)) throw new Caught(`${grant.id} has its version ${grant.version} twice`);
			this.#grants.set(grant.id, versions.set(grant.version, {
				grant,
				place
			}));
		}
		/** Takes in an event about no effect, if it tells of a permission. */
		takeFact({ type, facts, run, seq }, shown) {
			const policy = shown.get("policy");
			if (type === "policy_checked" && policy && readVerdict(policy).decision !== "refuse") throw new Caught("a call that never was an effect was refused, and its policy says otherwise");
			if (type === "policy_applied" && policy && readPolicy(policy).version !== facts.version) throw new Caught("its policy has another version than it says");
			const kind = Object.hasOwn(FACTS_OF_SHEETS, type) ? FACTS_OF_SHEETS[type] : "";
			const value = shown.get(kind);
			if (!value) {
				this.#unshown.add(kind);
				return;
			}
			const isNamed = ({ id }, isEnded, ending) => id === facts.id && isEnded === type.endsWith(ending);
			if (kind === "credential") check(kind, isNamed(readCredential(value), readCredential(value).is_revoked, "credential_revoked"));
			else if (kind === "person") check(kind, isNamed(readPerson(value), readPerson(value).is_revoked, "person_revoked"));
			else if (kind === "stop") check(kind, readStop(value).is_in_force === (type === "effects_stopped"));
			else if (kind === "provider") readProvider(value);
			else if (kind === "grant") {
				const grant = readGrant(value);
				check(kind, isNamed(grant, grant.is_ended, "_ended"));
				this.#keep(grant, [run, seq]);
			} else if (kind === "delegation") {
				const delegation = readDelegation(value);
				check(kind, isNamed(delegation, delegation.is_ended, "_ended"));
				if (!delegation.is_ended) this.#delegations.push(delegation);
			}
		}
		/** Throws `Caught` when something does not hold between runs: uses of grants, and votes for others. */
		close() {
			for (const versions of this.#grants.values()) for (const [number, { grant }] of versions) {
				const earlier = versions.get(number - 1);
				if (earlier) checkUse(earlier, grant);
				else if (this.isWhole && !this.#unshown.has("grant") && number !== 1) throw new Caught(`${grant.id} was never given, or a state of it is missing`);
			}
			if (!this.isWhole || this.#unshown.has("delegation")) return;
			for (const { giver, vote } of this.#delegated) if (!this.#delegations.some((one) => samePerson(one.giver, giver) && samePerson(one.to, vote.by) && one.credential === vote.delegated_with)) throw new Caught(`${giver} never let ${vote.by} decide for them`);
		}
	};
	function check(kind, isSaid) {
		if (!isSaid) throw new Caught(`its ${kind} is another than it says`);
	}
	/** Each state of a grant is the one before with a use less, or withdrawn; and what is over is not used. */
	function checkUse({ grant: before, place }, grant) {
		const next = {
			...before,
			version: before.version + 1,
			before: place
		};
		if (!(isSame(grant, {
			...next,
			uses_left: before.uses_left - 1
		}) || isSame(grant, {
			...next,
			is_ended: true
		})) || isOver(before)) throw new Caught(`${grant.id} does not follow from its state before`);
	}
	/** Throws when something happened that the policy's own words do not allow. */
	function checkVerdict({ type, commits }, { question }, decision) {
		if (decision === "refuse" !== (type === "policy_checked")) throw new Caught(`its policy says ${decision}, and it is ${type}`);
		if (type === "tool_call_started" && !("approval" in commits) && !("grant" in commits) && decision === "ask" && question !== "?") throw new Caught("its policy asks, and its effect was entered without an approval or a grant");
	}
	/** An approval is about the effect whose event commits to it, and stands as the event says. */
	function checkAbout({ effect, run, tool, side_effect, type, log, commits }, found, key) {
		if (!(found.effect === effect && found.run === run && found.tool === tool && found.side_effect === side_effect) || found.status !== STATUS_AFTER$1[type]) throw new Caught("its approval is about something else, or stands otherwise");
		const [tenant, , ownKey] = found.place;
		if (tenant !== tenantOf(log) || key !== null && ownKey !== key) throw new Caught("its approval is of another tenant or key");
		if (type === "approval_received" && found.grant === null && "grant" in commits) throw new Caught("its approval names no grant, and one comes with it");
	}
	/** A question that was just asked has no answers, and stands in the place of the one that was asked before. */
	function checkAsked({ actor }, found, replaces, editors) {
		const asked = {
			version: 1,
			votes: [],
			escalated: 0,
			grant: null,
			attempt: null,
			taken_back: [],
			requester: actor,
			replaces
		};
		checkSame({
			...found,
			...asked,
			editors: found.editors.length > 0 && replaces !== null ? editors : [],
			expires_at: later(found.asked_at, found.question.expires)
		}, found);
		if (found.id === found.replaces) throw new Caught(`${found.id} replaces itself`);
	}
	function checkSame(expected, found) {
		if (!isSame(expected, found)) throw new Caught(`its approval ${found.id} is not what the rules make of it`);
	}
	/** An approval binds the arguments on the record, where they are shown, and names the event that has them. */
	async function checkArgs(found, { args, argsSeq }) {
		if (argsSeq !== null && found.args_seq !== argsSeq) throw new Caught("its approval is about other arguments");
		if (args === null) return;
		const { id, place, for_run, tool, schema, policy, expires_at } = found;
		if (await hashed$1("indelible/approval/v1", place[0], id, for_run, tool, schema, args, policy, expires_at) !== found.digest) throw new Caught("its approval has another digest than what was asked");
	}
	/** Gives what an approval has to be after an event, given what it was before. */
	async function follows(event, before, found) {
		const { type, attempt, commits } = event;
		const next = {
			...before,
			version: before.version + 1
		};
		if (VOTES.includes(type)) {
			const counted = await count(before, newestVote(event, found, before.votes.length), event.actor.kind);
			return counted.status === "approved" && ("grant" in commits || found.grant === null) ? {
				...counted,
				grant: found.grant
			} : counted;
		}
		if (type === "approval_revoked") return unvoted(event, before, found);
		if (type === "approval_edited") return edited(event, before, found);
		if (type === "approval_escalated") {
			const isStep = found.escalated >= before.escalated && found.escalated <= before.question.escalations.length;
			return {
				...next,
				escalated: isStep ? found.escalated : before.escalated
			};
		}
		if (type === "tool_call_started") return {
			...next,
			status: "consumed",
			attempt
		};
		if (type !== "tool_call_released") return {
			...next,
			status: STATUS_AFTER$1[type]
		};
		return before.status === "consumed" && before.attempt === attempt ? {
			...next,
			status: "approved",
			attempt: null
		} : before;
	}
	async function count(before, vote, kind) {
		const counted = await voted(before, vote, kind);
		if (typeof counted === "string") throw new Caught(`${before.id} ${counted}`);
		return counted;
	}
	/** Gives the vote that an event tells of: it is there, and its actor's. */
	function newestVote({ actor, at }, found, earlier) {
		const vote = found.votes.at(-1);
		if (!vote || found.votes.length <= earlier) throw new Caught("no vote came to its approval by this vote");
		if (vote.by !== actor.id || vote.via !== actor.via || vote.at !== at) throw new Caught("its vote is not by whom it says, or not of then");
		if (vote.credential !== null && vote.via !== "api_key") throw new Caught("its vote names a token, and was cast without one");
		if (vote.delegated_with !== null && vote.on_behalf_of === null) throw new Caught("its vote names a token that delegated it, and was not delegated");
		return vote;
	}
	/** Counts all votes of an approval whose state before is not shown. */
	async function recount(event, found) {
		const newest = VOTES.includes(event.type) ? newestVote(event, found, 0) : null;
		let counted = {
			...found,
			status: "pending",
			votes: []
		};
		for (const vote of found.votes) counted = {
			...await count(counted, vote, vote === newest ? event.actor.kind : "person"),
			status: "pending"
		};
	}
	/** Takes the actor's own vote back; the ledger itself takes those of people who were revoked. */
	function unvoted({ actor }, before, found) {
		const isSystem = actor.kind === "system";
		const isOpen = ["pending", "approved"].includes(before.status) && before.expires_at > before.asked_at;
		const votes = before.votes.filter((vote) => isSystem ? found.votes.some((one) => isSame(one, vote)) : !samePerson(vote.by, actor.id));
		if (!isSystem && !isOpen || votes.length === before.votes.length) throw new Caught(`${before.id} lost no vote by this`);
		const signers = isSystem ? [] : before.votes.filter((vote) => vote.signature !== null && !votes.includes(vote)).map((vote) => vote.by);
		return {
			...before,
			version: before.version + 1,
			status: "pending",
			votes,
			taken_back: [...before.taken_back, ...signers]
		};
	}
	/** Gives the question as it is after an edit by somebody who could decide it; nobody has voted on it yet. */
	async function edited({ actor, at, seq }, before, found) {
		if (!before.question.may_edit) throw new Caught(`${before.id} may not be edited`);
		const vote = {
			at,
			by: actor.id,
			credential: null,
			delegated_with: null,
			is_approval: false,
			is_by_editor: false,
			on_behalf_of: null,
			signature: null,
			via: actor.via
		};
		const asked = {
			...before,
			status: "pending",
			votes: [],
			question: {
				...before.question,
				needs_signature: false
			}
		};
		if (asked.expires_at <= asked.asked_at) throw new Caught(`${before.id} expired`);
		await count(asked, vote, actor.kind);
		const { digest, policy, question, asked_at } = found;
		const made = {
			digest,
			policy,
			question,
			asked_at,
			expires_at: later(asked_at, question.expires)
		};
		return {
			...before,
			...made,
			version: before.version + 1,
			status: "pending",
			votes: [],
			escalated: 0,
			editors: [...before.editors, actor.id],
			grant: null,
			args_seq: seq,
			taken_back: []
		};
	}
	/** A grant that came with an approval rests on its last vote, and on what was approved. */
	function checkGiven({ actor }, grant, approval) {
		if (grant.version !== 1 || grant.before !== null || isOver(grant) || grant.given_by !== actor.id) throw new Caught(`${grant.id} is not new, or not given by ${actor.id}`);
		if (!approval) return;
		const { by, credential, on_behalf_of, delegated_with } = approval.votes.at(-1);
		if (!isSame({
			...grant,
			given_by: by,
			credential,
			on_behalf_of,
			delegated_with,
			id: approval.grant,
			approval: approval.id,
			schema: approval.schema,
			policy: approval.policy,
			rule: approval.question.rule
		}, grant)) throw new Caught(`${grant.id} is not the grant that came with ${approval.id}`);
		const { needs, needs_signature } = approval.question;
		if (needs_signature || needs.reduce((sum, need) => sum + need.count, 0) > 1) throw new Caught(`${grant.id} was given by one, and ${approval.id} takes more than one, or their signature`);
	}
	/** The arguments, where they are shown in clear, are those that the grant pins. */
	async function checkPinned(grant, args, { log, tool }) {
		const text = args === null ? null : textOf(args);
		if (text === null || text.startsWith(ENCRYPTED)) return;
		const content = JSON.parse(text);
		const pinned = grant.pin === null ? text : canonical(Object.fromEntries(grant.pin.map((path) => [escaped(path), reach(content, path)])));
		if (await hashed$1("indelible/grant/v1", tenantOf(log), tool, pinned) !== grant.pinned) throw new Caught(`${grant.id} pins other arguments`);
	}
	/** A name that begins with a dollar sign is written with a second one. */
	var escaped = (name) => name.startsWith("$") ? `$${name}` : name;
	function reach(args, path) {
		return path.split(".").reduce((here, name) => {
			if (!isObject(here) || isTagged(here) || !Object.hasOwn(here, escaped(name))) throw new Caught(`a grant pins ${path}, which is not there`);
			return here[escaped(name)];
		}, args);
	}
	// src/record/runs.ts
	/** The lives of runs as a journal tells them: begun, driven by one after the other, saved, and over when over. */
	var FORMS = rules_default.run_forms;
	var MOVES = rules_default.run_moves;
	var STATUS_AFTER = rules_default.run_status_after;
	var BY_HAND = "";
	var UNKNOWN = "?";
	var INTERRUPTED = "interruption_detected";
	var isByTheLedger = ({ type, facts }) => type !== BY_HAND && type in FORMS && (type !== INTERRUPTED || "fence" in facts);
	var isByHand = ({ type, facts }) => !(type === "policy_checked" && "decision" in facts) && (rules_default.types_by_hand.includes(type) || type.includes("."));
	/** Follows what is told of runs, each in its order; throws `Caught` at the first that the rules do not allow. */
	var RunLives = class {
		isWhole;
		#courses = /* @__PURE__ */ new Map();
		constructor(isWhole) {
			this.isWhole = isWhole;
		}
		/** Takes in an event about no effect; `gaps` counts where its run was not shown, up to here. */
		take(fact, gaps, shown) {
			const isMove = isByTheLedger(fact);
			if (!isMove && !isByHand(fact)) {
				if ("run" in fact.commits || "checkpoint" in fact.commits) throw new Caught(`${fact.type} tells of no run, and commits to one or to a checkpoint`);
				return;
			}
			checkForm(fact, isMove);
			const course = this.#course(fact, gaps);
			if (course.lostAt !== null && (fact.type !== "run_resumed" || fact.seq !== course.lostAt + 1)) throw new Caught("the run lost its driver, and the next event does not tell who took it over");
			course.lostAt = null;
			if (isMove) move(course, fact, shown);
			else if (!rules_default.may_be_told.includes(course.status)) throw new Caught(`something is told of a run that is ${course.status}: nothing can be added to it`);
		}
		#course({ run, seq, type }, gaps) {
			const known = this.#courses.get(run);
			if (known) {
				if (known.gaps !== gaps) Object.assign(known, {
					status: UNKNOWN,
					gaps,
					lostAt: null,
					checkpoints: null
				});
				return known;
			}
			const course = {
				status: this.isWhole || seq === 0 ? "" : UNKNOWN,
				gaps,
				fence: 0,
				lostAt: null,
				checkpoints: null,
				neverChanging: null
			};
			if (!this.isWhole || type === "run_started") this.#courses.set(run, course);
			return course;
		}
	};
	function checkForm(fact, isMove) {
		const form = FORMS[isMove ? fact.type : BY_HAND];
		const shapes = !isMove && "said_by" in fact.facts ? {
			...form.facts,
			said_by: "text"
		} : form.facts;
		if (!(Object.keys(fact.facts).sort().join() === Object.keys(shapes).sort().join()) || !Object.entries(shapes).every(([name, shape]) => fits(fact.facts[name], shape))) throw new Caught(`${fact.type} says ${Object.keys(shapes).join(", ") || "nothing"} in clear, each in its own way`);
		const names = Object.keys(fact.commits).sort();
		if (!form.commits.includes(names.join())) throw new Caught(`${fact.type} does not commit to (${names.join(", ")})`);
		if (fact.facts.status === "skipped" && !names.includes("side_effect_key")) throw new Caught(`${fact.type} was skipped, and names no side effect that was told before`);
	}
	function move(course, fact, shown) {
		const { type, facts, seq } = fact;
		const after = course.status === UNKNOWN ? STATUS_AFTER[type] ?? UNKNOWN : MOVES[`${course.status}|${type}`];
		if (after === void 0) throw new Caught(`no ${type} follows in a run that is ${course.status || "not started"}`);
		if ("fence" in facts) checkFence(course, type, facts.fence, seq);
		if (type === "checkpoint_sealed") {
			const at = facts.at;
			if (at < 0 || at >= seq) throw new Caught("its checkpoint is of no earlier event");
			if (course.checkpoints?.has(facts.checkpoint)) throw new Caught("it was sealed before");
			course.checkpoints?.add(facts.checkpoint);
			checkCheckpoint(fact, shown.get("checkpoint"));
		} else if (type === "run_resumed" && facts.checkpoint !== null && course.checkpoints?.has(facts.checkpoint) === false) throw new Caught("it resumes from no checkpoint of this run");
		else if (type === "run_started") course.checkpoints = /* @__PURE__ */ new Set();
		course.status = after;
		checkRun(course, fact, shown.get("run"));
		if (rules_default.over.includes(after)) course.checkpoints = null;
	}
	/** Each driver has a higher number than all before, and the one that was lost is the newest. */
	function checkFence(course, type, fence, seq) {
		if (type === INTERRUPTED) {
			if (course.fence !== 0 && course.fence !== fence) throw new Caught("it tells of another driver than the newest");
			course.lostAt = seq;
		} else if (fence <= course.fence) throw new Caught("its driver's number is not higher than those before");
		course.fence = fence;
	}
	/** A checkpoint that is shown is what its event says of it. */
	function checkCheckpoint({ at, commits, facts, run }, value) {
		if (value === void 0) return;
		const found = readCheckpoint(value);
		if (!(found.run === run && found.at === facts.at && found.reason === facts.reason && found.created_at === at) || found.has_state !== "state" in commits) throw new Caught("its checkpoint is another than it tells");
	}
	/** A run that is shown is what its event says, and what it was, but for how it stands. */
	function checkRun(course, { type, at, facts }, value) {
		if (value === void 0) return;
		const { status, updated_at, handover, ...kept } = readRun(value);
		if (status !== course.status || updated_at !== at) throw new Caught("its run stands otherwise than it tells");
		if (type === "run_started" && (kept.created_at !== at || kept.parent !== facts.parent || kept.parent_event !== facts.parent_event)) throw new Caught("its run began otherwise than it tells");
		if (type === "run_handed_over" && (handover?.to !== facts.to || handover?.until !== facts.until)) throw new Caught("its run was handed over to another ledger than it tells");
		const text = canonical(kept);
		if (course.neverChanging !== null && course.neverChanging !== text) throw new Caught("its run is another one than before: only how a run stands changes");
		course.neverChanging = text;
	}
	// src/record/notes.ts
	/** Signed heads of the journal: C2SP signed notes, read strictly. */
	var NotReadable = class extends Caught {};
	var ED25519 = 1;
	var MOST_BYTES = 1e6;
	var MOST_SIGNATURES = 100;
	var BARRED = /[+\u0000-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|\p{Cs}/u;
	function parseNote(note) {
		const text = typeof note === "string" ? note : textOf(note);
		if (text === null || utf8(text).length > MOST_BYTES) throw new NotReadable("this note is no UTF-8, or too long");
		if (/[\u0000-\u0009\u000b-\u001f]|\p{Cs}/u.test(text)) throw new NotReadable("control characters stand in this note");
		const cut = text.lastIndexOf("\n\n");
		if (cut < 0 || !text.endsWith("\n") || cut + 2 === text.length) throw new NotReadable("this is no signed note: it has no signatures");
		const lines = text.slice(cut + 2, -1).split("\n");
		if (lines.length > MOST_SIGNATURES) throw new NotReadable("too many signatures stand under this note");
		return {
			text: text.slice(0, cut + 1),
			signatures: lines.map(parseSignature)
		};
	}
	function parseSignature(line) {
		const [dash, name, encoded, ...rest] = line.split(" ");
		if (dash !== "—" || !name || encoded === void 0 || rest.length > 0 || BARRED.test(name)) throw new NotReadable("a line of signature cannot be read");
		const bytes = strictBase64(encoded, `the signature of ${name}`);
		if (bytes.length < 5) throw new NotReadable("a signature is too short");
		return {
			name,
			keyId: bytes.slice(0, 4),
			bytes: bytes.slice(4)
		};
	}
	function parseHead(text) {
		const lines = text.split("\n");
		const [origin, size, root] = lines;
		if (lines.length < 4 || lines.pop() !== "" || lines.includes("") || !/^(0|[1-9][0-9]{0,18})$/.test(size) || BigInt(size) >= 2n ** 63n) throw new NotReadable("this is no head of a journal");
		const bytes = strictBase64(root, "the root of this head");
		if (bytes.length !== 32) throw new NotReadable("the root of this head is no hash");
		return {
			origin,
			size: Number(size),
			root: bytes
		};
	}
	/** Reads a public key as it is handed around, `name+id+base64`, and checks that its id is its own and that it is sound. */
	async function parseKey(vkey) {
		const [name, id, ...rest] = vkey.trim().split("+");
		if (!name || BARRED.test(name) || !/^[0-9a-f]{8}$/.test(id ?? "")) throw new NotReadable("a key looks like name+0123abcd+base64");
		const typed = strictBase64(rest.join("+"), "the key");
		if (typed.length !== 33 || typed[0] !== ED25519) throw new NotReadable("only Ed25519 keys are known here");
		const keyId = (await sha256(concat(utf8(name), Uint8Array.of(10), typed))).slice(0, 4);
		if (toHex(keyId) !== id) throw new NotReadable("the id of this key is not its own");
		const publicKey = typed.slice(1);
		if (isWeak(publicKey)) throw new NotReadable("this is no key that one person can hold: signatures by it prove nothing");
		return {
			name,
			keyId,
			publicKey,
			vkey: vkey.trim()
		};
	}
	/** Says whether a note carries a signature by this key; throws `Caught` when one says so and does not fit. */
	async function isSignedBy(note, key) {
		const claimed = note.signatures.filter((one) => one.name === key.name && same(one.keyId, key.keyId));
		for (const { bytes } of claimed) if (!await verifies(key.publicKey, bytes, utf8(note.text))) throw new Caught(`the signature of ${key.name} does not fit the text above it`);
		return claimed.length > 0;
	}
	/** Throws `Caught` unless both keys signed that the one follows the other. */
	async function checkRotation(old, next, oldSignature, newSignature) {
		if (old.name !== next.name || same(old.publicKey, next.publicKey)) throw new Caught("a rotation leads from one key of a journal to another");
		const message = concat(utf8("indelible/rotate/v1\0"), utf8(`${old.vkey}\n${next.vkey}`));
		for (const [key, signature] of [[old, oldSignature], [next, newSignature]]) if (!await verifies(key.publicKey, signature, message)) throw new Caught("one of the two keys did not sign this rotation");
	}
	var ROTATION_LINE = concat(Uint8Array.of(255), utf8("indelible/rotation/v1\0"));
	/** Returns these keys, and those that follow them by rotations that stand under a note; throws `Caught` for a line that says so and is none. */
	async function followed(note, keys) {
		const found = [...keys];
		for (const old of found) {
			const lineId = (await sha256(concat(utf8(old.name), Uint8Array.of(10), ROTATION_LINE, old.publicKey))).slice(0, 4);
			for (const { bytes } of note.signatures.filter((one) => one.name === old.name && same(one.keyId, lineId))) {
				if (bytes.length !== 160) throw new Caught("a rotation has another length than it should");
				const typed = concat(Uint8Array.of(ED25519), bytes.slice(0, 32));
				const id = (await sha256(concat(utf8(old.name), Uint8Array.of(10), typed))).slice(0, 4);
				const next = await parseKey(`${old.name}+${toHex(id)}+${toBase64(typed)}`);
				await checkRotation(old, next, bytes.slice(32, 96), bytes.slice(96));
				if (!found.some((key) => same(key.publicKey, next.publicKey))) found.push(next);
			}
		}
		return found;
	}
	// src/record/trust.ts
	/** Whose signature counts on which head: pinned keys, rotations, revocations. A key that only stands in the evidence is never trusted. */
	var MEMBERS$1 = rules_default.journal_members;
	var OWN_RUN = "indelible:journal";
	var sizeOf = (value) => {
		if (!Number.isSafeInteger(value) || value < 0) throw new Caught("a size is a whole number");
		return value;
	};
	/** Says that no key that is trusted signed a head. */
	var Untrusted = class extends Caught {};
	/** Collects what a journal says about its own keys, and tells whose signature a head needs. */
	var KeyChain = class {
		origin;
		continuations = [];
		#rotations = [];
		#revoked = /* @__PURE__ */ new Map();
		#writers = /* @__PURE__ */ new Map();
		constructor(origin) {
			this.origin = origin;
		}
		/** Takes in what an event of the journal's own run says; throws `Caught` when it does not hold. */
		async learn(index, run, type, facts) {
			if (run !== OWN_RUN || !Object.hasOwn(MEMBERS$1, type)) return;
			if (Object.keys(facts).sort().join() !== MEMBERS$1[type].join()) throw new Caught(`a ${type} says ${MEMBERS$1[type].join(", ") || "nothing"}`);
			if (type === "key_rotated") await this.#rotate(index, facts);
			else if (type === "key_registered") await keyIn(facts.key);
			else if (type === "key_revoked") {
				const [key, size] = [await keyIn(facts.key), sizeOf(facts.size)];
				const raw = toHex(key.publicKey);
				this.#revoked.set(raw, Math.min(size, this.#revoked.get(raw) ?? size));
			} else if (type === "log_continued") this.continuations.push(continuationOf(index, facts));
			else if (type === "writer_registered") this.#register(facts);
		}
		async #rotate(index, facts) {
			const [old, next] = [await keyIn(facts.old), await keyIn(facts.new)];
			if (old.vkey !== facts.old || next.vkey !== facts.new) throw new Caught("a rotation leads from one key of a journal to another");
			await checkRotation(old, next, strictBase64(facts.old_signature, "a signature"), strictBase64(facts.new_signature, "a signature"));
			const last = this.#rotations.at(-1);
			if (old.name !== this.origin || last && !same(last.new.publicKey, old.publicKey)) throw new Caught("this is a rotation of another key");
			this.#rotations.push({
				index,
				old,
				new: next
			});
		}
		#register({ key, writer }) {
			if (typeof writer !== "string" || isWeak(strictBase64(key, "the writer's key"))) throw new Caught("a writer has a key of its own");
			if ((this.#writers.get(writer) ?? key) !== key) throw new Caught("the writer has another key already");
			this.#writers.set(writer, key);
		}
		/** Throws `Caught` when a look at the newest head is enough to see that it is not the journal of these keys. */
		static async checkAtOnce(note, head, pinned) {
			if (pinned.length > 0 && !pinned.some((key) => key.name === head.origin)) throw new Caught(`it is a head of another journal than the key you pinned: ${head.origin}`);
			for (const key of pinned) await isSignedBy(note, key);
		}
		/** Throws `Caught` unless a head is signed by the key that is trusted for its size; every line by a known key has to fit. */
		async checkSigned(note, head, pinned) {
			if (head.origin !== this.origin) throw new Caught(`it is a head of another journal: ${head.origin}`);
			const named = this.#rotations.flatMap((one) => [one.old, one.new]);
			const trusted = await followed(note, pinned);
			let keys = trusted;
			if (named.length > 0) {
				keys = await followed(note, [this.#signerOf(head.size)]);
				const known = [...named, ...keys];
				if (!trusted.some((key) => key.name === this.origin && known.some((one) => same(one.publicKey, key.publicKey)))) keys = [];
			}
			const signers = /* @__PURE__ */ new Set();
			for (const key of [
				...trusted,
				...named,
				...keys
			]) if (await isSignedBy(note, key)) signers.add(key.vkey);
			const good = keys.find((key) => signers.has(key.vkey) && key.name === this.origin && head.size <= (this.#revoked.get(toHex(key.publicKey)) ?? head.size));
			if (!good) throw new Untrusted(signers.size > 0 ? "the head is signed by a key that was replaced or revoked" : "the head is not signed by the key of this journal");
			return good;
		}
		#signerOf(size) {
			return this.#rotations.findLast((one) => one.index < size)?.new ?? this.#rotations[0].old;
		}
	};
	async function keyIn(vkey) {
		if (typeof vkey !== "string") throw new Caught("a key is written as a text");
		return parseKey(vkey);
	}
	function continuationOf(index, { lost, size }) {
		if (!isObject(lost) || Object.keys(lost).sort().join() !== "root,size" || strictBase64(lost.root, "the lost root").length !== 32) throw new Caught("a continuation names size and root of what was lost");
		return {
			index,
			size: sizeOf(size),
			lost: {
				size: sizeOf(lost.size),
				root: lost.root
			}
		};
	}
	// src/record/examination.ts
	/** Examines a journal's entries one after the other: their form, the rules, the keys, the values. */
	/** Takes in entries in their order; throws `Caught` at the first that is not as it should be. */
	var Examination = class {
		chain;
		lives;
		tally = new Tally();
		permissions;
		#runs;
		#oneKey = new OneKey();
		/** `isWhole` says that every event of each run that is shown at all is shown, from its first; `hasEveryRun` that every run is. */
		constructor(origin, isWhole, hasEveryRun) {
			this.chain = new KeyChain(origin);
			this.lives = new Lives(origin, isWhole);
			this.#runs = new RunLives(isWhole);
			this.permissions = new Permissions(isWhole && hasEveryRun);
		}
		/** Examines one entry with the values that came with it. */
		async take(index, entry, values = []) {
			const body = readBody(entry);
			const { gaps, before } = this.lives.follow(body, toHex(await leafHash(entry)));
			if (!isEffect(body)) {
				await this.chain.learn(index, body.run, body.type, body.facts);
				if (body.type === "payload_erased") this.tally.erase(body.run, body.facts);
			}
			await checkValues(body, values);
			this.tally.take(body, values.map((one) => one.field));
			this.#oneKey.take(body, values.find((one) => one.field === "key")?.value);
			const shown = new Map(values.map((one) => [one.field, one.value]));
			if (!isEffect(body)) {
				this.permissions.takeFact(body, shown);
				this.#runs.take(body, gaps, shown);
			} else if (before) await this.permissions.take(body, before, shown);
			return body;
		}
	};
	async function checkValues(body, values) {
		const seen = /* @__PURE__ */ new Set();
		for (const one of values) {
			const expected = Object.hasOwn(body.commits, one.field) ? body.commits[one.field] : void 0;
			if (seen.has(one.field) || await commitmentOf(one) !== expected) throw new Caught(`its “${one.field}” is not the value it committed to`);
			if (!isWrittenRight(one)) throw new Caught(`its “${one.field}” is not written canonically`);
			seen.add(one.field);
		}
	}
	// src/record/report.ts
	/** Verifies the record inside an HTML report: an excerpt with proofs, values and a manifest. Knows nothing of the page. */
	var TEXTS = [
		"format",
		"indelible",
		"kind",
		"made_at",
		"origin",
		"root"
	];
	var NUMBERS = [
		"events",
		"first",
		"last",
		"payloads",
		"size",
		"withheld"
	];
	var MEMBERS = [
		...TEXTS,
		...NUMBERS,
		"keys",
		"run"
	].sort();
	var AT_ONCE = 250;
	var isCount = (value) => Number.isSafeInteger(value) && value >= 0;
	var pause = () => new Promise((go) => setTimeout(go));
	/** Strict: what has a member more or less than it should is refused. */
	function members(object, names, what) {
		if (!isObject(object) || Object.keys(object).sort().join() !== names.join()) throw new Caught(`${what} has members missing or added`);
		return object;
	}
	/** Reads the record's JSON; it is written in one way only, so that no two readers see two records in it. */
	function readRecord(text) {
		let record;
		try {
			record = JSON.parse(text);
			if (!isObject(record) || !Array.isArray(record.events)) throw new Caught();
			if (`{"events":[${record.events.map((event) => `\n${harmless(event)}`).join(",")}\n],"head":${harmless(record.head)},"manifest":${harmless(record.manifest)}}\n` === text.trimStart()) return record;
		} catch {}
		throw new Caught("the record is not written as a report writes it");
	}
	var harmless = (content) => canonical(content).replace(/[^\x20-\x7e]|[<>&]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
	/** Gives everything there is to say about a record, but whose signature its head carries. */
	async function checkRecord(text, progress = () => {}) {
		const report = {
			events: [],
			problems: [],
			note: null,
			head: null,
			manifest: {},
			payloads: 0,
			begins: /* @__PURE__ */ new Map(),
			chain: null
		};
		try {
			const record = members(readRecord(text), [
				"events",
				"head",
				"manifest"
			], "the record");
			if (typeof record.head !== "string") throw new Caught("the signed head cannot be read");
			report.note = parseNote(record.head);
			report.head = parseHead(report.note.text);
			report.manifest = readManifest(record.manifest);
			const events = record.events;
			if (events.length === 0) throw new Caught("the record holds no events");
			const nodes = [];
			for (let number = 0; number < events.length; number += AT_ONCE) {
				for (const given of events.slice(number, number + AT_ONCE)) report.events.push(await readEvent(given, report.head, nodes));
				progress(report.events.length / events.length);
				await pause();
			}
			await examine(report, report.head);
			checkManifest(report, report.head);
		} catch (problem) {
			if (!(problem instanceof Caught)) throw problem;
			report.problems.push({
				part: "tree",
				what: problem.message
			});
		}
		return report;
	}
	/** Reads one event, and checks what can be told of it alone: its way to the root, and the values it committed to. */
	async function readEvent(given, head, nodes) {
		const event = {
			index: null,
			hash: null,
			body: null,
			text: null,
			fields: null,
			payloads: [],
			absent: [],
			problems: []
		};
		const blame = (part, what, expected, found) => event.problems.push({
			part,
			what,
			event,
			...expected !== void 0 && { expected },
			...found !== void 0 && { found }
		});
		try {
			const proof = proofOf(isObject(given) ? given.proof : null, nodes);
			const { index, body, payloads } = members(given, [
				"body",
				"index",
				"payloads",
				"proof"
			], "it");
			if (!isCount(index)) throw new Caught("its place in the journal is no number");
			event.index = index;
			event.body = strictBase64(body, "its content");
			const leaf = await leafHash(event.body);
			event.hash = toHex(leaf);
			const root = await rootByInclusion(leaf, index, head.size, proof, hashed);
			if (!root || !same(root, head.root)) blame("tree", "it does not lead to the signed root: this event, or its proof, was changed", toHex(head.root), root ? toHex(root) : "a proof of the wrong length");
			event.text = textOf(event.body);
			if (event.text === null) throw new Caught("its content is no UTF-8");
			event.fields = readBody(event.body);
			await readValues(event, event.fields, payloads, blame);
		} catch (problem) {
			if (!(problem instanceof Caught)) throw problem;
			blame("tree", problem.message);
		}
		return event;
	}
	async function readValues(event, body, given, blame) {
		if (!Array.isArray(given)) throw new Caught("its payloads are none");
		for (const one of given) {
			const { field, salt, value } = members(one, [
				"field",
				"salt",
				"value"
			], "a value");
			if (typeof field !== "string") throw new Caught("a value belongs to no field");
			const shown = {
				field,
				salt: fromHex(salt, 32, "a salt"),
				value: strictBase64(value, "a value")
			};
			const [expected, found] = [Object.hasOwn(body.commits, field) ? body.commits[field] : "no such value", await commitmentOf(shown)];
			const isGood = expected === found && !event.payloads.some((other) => other.field === field);
			if (!isGood) blame("values", `its “${field}” is not the value this event committed to`, expected, found);
			event.payloads.push({
				...shown,
				isGood
			});
		}
		event.absent = Object.keys(body.commits).filter((name) => !event.payloads.some((one) => one.field === name)).map((field) => ({
			field,
			isErased: false
		}));
	}
	/** A hash that came before is named by its number, so that it stands in the file once. */
	function proofOf(given, nodes) {
		if (!Array.isArray(given)) throw new Caught("its proof is none");
		return given.map((one) => {
			if (isCount(one) && one < nodes.length) return nodes[one];
			const node = strictBase64(one, "a hash of its proof");
			if (node.length !== 32) throw new Caught("its proof is none");
			nodes.push(node);
			return node;
		});
	}
	var known = /* @__PURE__ */ new Map();
	function hashed(left, right) {
		const pair = toHex(left) + toHex(right);
		const found = known.get(pair) ?? nodeHash(left, right);
		known.set(pair, found);
		return found;
	}
	/** Follows the events in their order, up to the first that the rules do not allow. */
	async function examine(report, head) {
		const { kind, withheld } = report.manifest;
		const examination = new Examination(head.origin, kind !== "period", kind === "journal");
		report.chain = examination.chain;
		let before = kind === "journal" ? -1 : null;
		for (const event of report.events) {
			if (event.fields) noteBegin(report, event.fields);
			if (event.problems.length > 0 || event.body === null || event.index === null) return;
			try {
				if (!(before === null || (kind === "run" ? event.index > before : event.index === before + 1))) throw new Caught("events before it are missing, doubled or out of order");
				before = event.index;
				await examination.take(event.index, event.body, event.payloads);
			} catch (problem) {
				if (!(problem instanceof Caught)) throw problem;
				event.problems.push({
					part: "chain",
					what: problem.message,
					event
				});
				return;
			}
		}
		if (kind === "journal" && before !== head.size - 1) report.problems.push({
			part: "chain",
			what: "the journal's last events are missing",
			expected: `${head.size} entries`,
			found: `${(before ?? -1) + 1} entries`
		});
		markErased(report);
		try {
			examination.tally.close(withheld, kind === "journal");
			examination.permissions.close();
		} catch (problem) {
			if (!(problem instanceof Caught)) throw problem;
			report.problems.push({
				part: "values",
				what: problem.message
			});
		}
	}
	function noteBegin({ begins }, { run, seq }) {
		if (!begins.has(run)) begins.set(run, seq);
	}
	function readManifest(given) {
		const manifest = members(given, MEMBERS, "the manifest");
		const { kind, keys, run } = manifest;
		const isGood = TEXTS.every((name) => typeof manifest[name] === "string") && NUMBERS.every((name) => isCount(manifest[name])) && Array.isArray(keys) && keys.every((key) => typeof key === "string");
		const isKnown = [
			"journal",
			"run",
			"period"
		].includes(kind) && (kind === "run" ? typeof run === "string" : run === null);
		if (!isGood || !isKnown || manifest.format !== "indelible/report/v1") throw new Caught("the manifest is none of the format indelible/report/v1");
		return manifest;
	}
	/** Nothing in the manifest is trusted: where it contradicts the rest, somebody changed something. */
	function checkManifest(report, head) {
		const { manifest, events } = report;
		report.payloads = events.reduce((sum, event) => sum + event.payloads.length, 0);
		const truths = {
			origin: head.origin,
			size: head.size,
			root: toBase64(head.root),
			events: events.length,
			payloads: report.payloads,
			first: events[0].index,
			last: events.at(-1).index
		};
		for (const [name, truth] of Object.entries(truths)) if (manifest[name] !== truth) report.problems.push({
			part: "manifest",
			what: `the manifest's “${name}” is not what the record shows`,
			expected: String(truth),
			found: String(manifest[name])
		});
		for (const event of manifest.kind === "run" ? events : []) if (event.fields && event.fields.run !== manifest.run) event.problems.push({
			part: "chain",
			what: "it belongs to another run",
			expected: String(manifest.run),
			found: String(event.fields.run),
			event
		});
	}
	/** A value that went by an event of its run was erased lawfully; one that is only absent may have been withheld. */
	function markErased({ events }) {
		const erased = /* @__PURE__ */ new Set();
		const named = (run, seq, field) => JSON.stringify([
			run,
			seq,
			field
		]);
		for (const { fields } of events) {
			if (fields?.type !== "payload_erased") continue;
			const { erased: gone } = fields.facts;
			for (const one of gone) for (const name of one.fields) erased.add(named(fields.run, one.seq, name));
		}
		for (const event of events) for (const one of event.absent) one.isErased = erased.has(named(event.fields?.run, event.fields?.seq, one.field));
	}
	/** Says whose signature the head carries, as the journal's own words let it count; a browser without Ed25519 never says signed. */
	async function checkSignature(report, vkeys) {
		const { note, head } = report;
		if (!note || !head) return {
			state: "unreadable",
			why: "the record cannot be read"
		};
		const keys = [];
		try {
			for (const vkey of vkeys) keys.push(await parseKey(vkey));
		} catch (problem) {
			return {
				state: "unreadable",
				why: problem instanceof NotReadable ? problem.message : "This key cannot be read."
			};
		}
		const [key] = keys;
		const chain = report.chain ?? new KeyChain(head.origin);
		try {
			if (!keys.some((one) => one.name === head.origin)) return {
				state: "foreign",
				...key && { key }
			};
			await KeyChain.checkAtOnce(note, head, keys);
			return {
				state: "signed",
				key: await chain.checkSigned(note, head, keys)
			};
		} catch (problem) {
			if (!(problem instanceof Caught)) return {
				state: "cannot",
				...key && { key }
			};
			return {
				state: problem.message.includes("does not fit") ? "forged" : problem.message.includes("replaced or revoked") ? "retired" : "unsigned",
				why: problem.message,
				...key && { key }
			};
		}
	}
	/** Gives the one word for a record and the keys that came another way. */
	async function verdictOf(text, vkeys) {
		const report = await checkRecord(text);
		if (report.problems.length > 0 || report.events.some((event) => event.problems.length > 0)) return "tampered";
		if (vkeys.length === 0) return "cannot_tell";
		const { state } = await checkSignature(report, vkeys);
		return state === "signed" ? "verified" : state === "cannot" || state === "unreadable" ? "cannot_tell" : "tampered";
	}
	exports.checkRecord = checkRecord;
	exports.checkSignature = checkSignature;
	exports.isRecorded = isRecorded;
	exports.readRecord = readRecord;
	exports.textOf = textOf;
	exports.toHex = toHex;
	exports.verdictOf = verdictOf;
	return exports;
})({});
