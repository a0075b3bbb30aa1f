// The judge in JavaScript: @sigstore/verify's own checkpoint and Merkle code decides.
//
// It reads cases from standard input, one JSON object a line, and writes one verdict a line.
'use strict';
const crypto = require('node:crypto');
const path = require('node:path');
const readline = require('node:readline');

const parts = path.join(process.argv[2], 'node_modules', '@sigstore', 'verify', 'dist', 'tlog');
const { verifyCheckpoint } = require(path.join(parts, 'checkpoint.js'));
const { verifyTLogInclusion } = require(path.join(parts, 'index.js'));

const JUDGES = { head: judgeHead, receipt: judgeReceipt };

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const asked = JSON.parse(line);
  let verdict;
  try {
    verdict = { accepted: true, meaning: JUDGES[asked.kind](asked), why: '' };
  } catch (error) {
    verdict = { accepted: false, meaning: '', why: String(error).slice(0, 200) };
  }
  process.stdout.write(JSON.stringify({ id: asked.id, ...verdict }) + '\n');
});

function judgeHead(asked) {
  const envelope = Buffer.from(asked.note, 'base64').toString('utf8');
  verifyCheckpoint({ inclusionProof: { checkpoint: { envelope } } }, [trusted(asked.keys[0])]);
  return meaningOf(envelope);
}

function judgeReceipt(asked) {
  const text = Buffer.from(asked.receipt, 'base64').toString('utf8');
  const split = text.indexOf('\n\n');
  const [first, extra, index, ...hashes] = text.slice(0, split).split('\n');
  if (first !== 'c2sp.org/tlog-proof@v1' || !extra.startsWith('extra ') || !index.startsWith('index ')) {
    throw new Error('no tlog-proof');
  }
  const envelope = text.slice(split + 2);
  const canonicalizedBody = Buffer.from(extra.slice(6), 'base64');
  const logIndex = index.slice(6);
  verifyTLogInclusion(
    {
      canonicalizedBody,
      inclusionProof: { logIndex, hashes: hashes.map((one) => Buffer.from(one, 'base64')), checkpoint: { envelope } },
    },
    [trusted(asked.keys[0])],
  );
  return `${meaningOf(envelope)}${BigInt(logIndex)} ${canonicalizedBody.toString('hex')}`;
}

// Trusts exactly this key, under its name and the id by which notes name it.
function trusted(vkey) {
  const [baseURL, id, ...rest] = vkey.split('+');
  const raw = Buffer.from(rest.join('+'), 'base64').subarray(1);
  const key = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw]);
  const publicKey = crypto.createPublicKey({ key, format: 'der', type: 'spki' });
  return { logID: Buffer.from(id, 'hex'), baseURL, publicKey };
}

// What was signed is the text alone; a signature that verifies has no second meaning.
function meaningOf(envelope) {
  return envelope.slice(0, envelope.indexOf('\n\n') + 1);
}
