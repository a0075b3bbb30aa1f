// The judge in Go: it knows trees and notes only through Go's own sumdb/tlog and sumdb/note.
//
// It reads cases from standard input, one JSON object a line, and writes one verdict a line. With the argument
// "vectors" it prints what Go computes for a small tree and a note, for the tests that run without Go.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"judge/note"
	"judge/tlog"
)

const height = 8

type Case struct {
	ID        int                `json:"id"`
	Kind      string             `json:"kind"`
	Keys      []string           `json:"keys"`
	Witnesses []string           `json:"witnesses"`
	Note      []byte             `json:"note"`
	Receipt   []byte             `json:"receipt"`
	Old       []byte             `json:"old"`
	New       []byte             `json:"new"`
	Proof     []string           `json:"proof"`
	Folder    string             `json:"folder"`
	Changed   map[string]*string `json:"changed"`
}

type Verdict struct {
	ID       int    `json:"id"`
	Accepted bool   `json:"accepted"`
	Meaning  string `json:"meaning"`
	Why      string `json:"why"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "vectors" {
		printVectors()
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var c Case
		must(json.Unmarshal(lines.Bytes(), &c))
		meaning, err := judge(c)
		verdict := Verdict{ID: c.ID, Accepted: err == nil, Meaning: meaning}
		if err != nil {
			verdict.Meaning, verdict.Why = "", err.Error()
		}
		line, err := json.Marshal(verdict)
		must(err)
		out.Write(append(line, '\n'))
	}
	must(lines.Err())
}

func judge(c Case) (string, error) {
	switch c.Kind {
	case "head", "cosigned":
		_, meaning, err := openHead(c.Note, c)
		return meaning, err
	case "receipt":
		return judgeReceipt(c)
	case "consistency":
		return judgeConsistency(c)
	case "tree":
		return judgeTree(c)
	}
	return "", errors.New("unknown kind " + c.Kind)
}

// openHead verifies a head with note.Open: a signature by every key and every witness must be there and good.
func openHead(msg []byte, c Case) (tlog.Tree, string, error) {
	verifiers := []note.Verifier{}
	for _, vkey := range c.Keys {
		log, err := note.NewVerifier(vkey)
		if err != nil {
			return tlog.Tree{}, "", err
		}
		verifiers = append(verifiers, log)
	}
	for _, vkey := range c.Witnesses {
		w, err := newWitness(vkey)
		if err != nil {
			return tlog.Tree{}, "", err
		}
		verifiers = append(verifiers, w)
	}
	opened, err := note.Open(msg, note.VerifierList(verifiers...))
	if err != nil {
		return tlog.Tree{}, "", err
	}
	if len(opened.Sigs) != len(verifiers) {
		return tlog.Tree{}, "", fmt.Errorf("%d of %d signatures found", len(opened.Sigs), len(verifiers))
	}
	meaning := opened.Text
	for _, sig := range opened.Sigs {
		raw, err := base64.StdEncoding.DecodeString(sig.Base64)
		if err != nil {
			return tlog.Tree{}, "", err
		}
		meaning += fmt.Sprintf("%s %x\n", sig.Name, raw)
	}
	tree, err := parseHead(opened.Text)
	return tree, meaning, err
}

func parseHead(text string) (tlog.Tree, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 {
		return tlog.Tree{}, errors.New("too few lines")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	root, err := tlog.ParseHash(lines[2])
	return tlog.Tree{N: size, Hash: root}, err
}

// witness verifies cosignatures (type 04), which sumdb/note leaves to others.
type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func newWitness(vkey string) (*witness, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return nil, errors.New("no vkey")
	}
	id, err := strconv.ParseUint(parts[1], 16, 32)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "\n" + string(key)))
	if len(key) != 33 || key[0] != 4 || binary.BigEndian.Uint32(sum[:]) != uint32(id) {
		return nil, errors.New("no vkey of a witness")
	}
	return &witness{parts[0], uint32(id), ed25519.PublicKey(key[1:])}, nil
}

func (w *witness) Name() string    { return w.name }
func (w *witness) KeyHash() uint32 { return w.hash }
func (w *witness) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	signed := fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(sig), msg)
	return ed25519.Verify(w.key, []byte(signed), sig[8:])
}

func judgeReceipt(c Case) (string, error) {
	above, below, found := bytes.Cut(c.Receipt, []byte("\n\n"))
	lines := strings.Split(string(above), "\n")
	if !found || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return "", errors.New("no tlog-proof")
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	digits, isIndex := strings.CutPrefix(lines[2], "index ")
	if !isExtra || !isIndex {
		return "", errors.New("no extra or no index")
	}
	entry, err := base64.StdEncoding.DecodeString(extra)
	if err != nil {
		return "", err
	}
	index, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return "", err
	}
	proof, err := parseHashes(lines[3:])
	if err != nil {
		return "", err
	}
	tree, meaning, err := openHead(below, c)
	if err != nil {
		return "", err
	}
	if err := tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s%d %x", meaning, index, entry), nil
}

func judgeConsistency(c Case) (string, error) {
	proof, err := parseHashes(c.Proof)
	if err != nil {
		return "", err
	}
	older, _, err := openHead(c.Old, c)
	if err != nil {
		return "", err
	}
	newer, _, err := openHead(c.New, c)
	if err != nil {
		return "", err
	}
	return "", tlog.CheckTree(proof, newer.N, newer.Hash, older.N, older.Hash)
}

func parseHashes(lines []string) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, 0, len(lines))
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, nil
}

// folder reads tiles in the layout of tlog-tiles; files in `changed` stand before those on the disk.
type folder struct {
	path    string
	changed map[string]*string
}

func (f folder) read(name string) ([]byte, error) {
	if text, ok := f.changed[name]; ok {
		if text == nil {
			return nil, fs.ErrNotExist
		}
		return base64.StdEncoding.DecodeString(*text)
	}
	return os.ReadFile(filepath.Join(f.path, name))
}

func (f folder) Height() int { return height }

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	read := make([][]byte, len(tiles))
	for i, tile := range tiles {
		content, err := f.read(pathOf(tile))
		if err != nil {
			return nil, err
		}
		read[i] = content
	}
	return read, nil
}

func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

// pathOf gives Go's own name of a tile without the height, which tlog-tiles leaves out, and with its word for entries.
func pathOf(tile tlog.Tile) string {
	name := strings.TrimPrefix(tile.Path(), fmt.Sprintf("tile/%d/", height))
	return "tile/" + strings.Replace(name, "data/", "entries/", 1)
}

// judgeTree checks every tile and every entry against the signed root, and that no other file is there.
func judgeTree(c Case) (string, error) {
	f := folder{c.Folder, c.Changed}
	signed, err := f.read("checkpoint")
	if err != nil {
		return "", err
	}
	tree, _, err := openHead(signed, c)
	if err != nil {
		return "", err
	}
	hashes := tlog.TileHashReader(tree, f)
	expected := map[string]bool{"checkpoint": true}
	for _, tile := range tlog.NewTiles(height, 0, tree.N) {
		expected[pathOf(tile)] = true
		content, err := f.read(pathOf(tile))
		if err != nil {
			return "", err
		}
		computed, err := tlog.ReadTileData(tile, hashes)
		if err != nil {
			return "", err
		}
		if !bytes.Equal(content, computed) {
			return "", errors.New(pathOf(tile) + " differs")
		}
		if tile.L == 0 {
			if err := checkEntries(f, tile, content, expected); err != nil {
				return "", err
			}
		}
	}
	return "", checkNames(c.Folder, expected)
}

func checkEntries(f folder, tile tlog.Tile, hashes []byte, expected map[string]bool) error {
	tile.L = -1
	name := pathOf(tile)
	expected[name] = true
	packed, err := f.read(name)
	if err != nil {
		return err
	}
	for len(hashes) > 0 {
		if len(packed) < 2 {
			return errors.New(name + " is cut short")
		}
		length := int(binary.BigEndian.Uint16(packed))
		if len(packed) < 2+length {
			return errors.New(name + " is cut short")
		}
		hash := tlog.RecordHash(packed[2 : 2+length])
		if !bytes.Equal(hash[:], hashes[:tlog.HashSize]) {
			return errors.New(name + ": an entry differs")
		}
		packed, hashes = packed[2+length:], hashes[tlog.HashSize:]
	}
	if len(packed) > 0 {
		return errors.New(name + " goes on")
	}
	return nil
}

func checkNames(root string, expected map[string]bool) error {
	count := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && !expected[filepath.ToSlash(name)] {
			err = errors.New(name + " belongs to no tree of this size")
		}
		count++
		return err
	})
	if err == nil && count != len(expected) {
		err = fmt.Errorf("%d files, not %d", count, len(expected))
	}
	return err
}

// printVectors prints roots, digests of all proofs of a size, and a signed note.
func printVectors() {
	const most = 130
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			found[i] = stored[index]
		}
		return found, nil
	})
	roots := []string{}
	inclusion := map[string]string{}
	consistency := map[string]string{}
	for size := int64(1); size <= most; size++ {
		hashes, err := tlog.StoredHashes(size-1, []byte(fmt.Sprintf("entry %d", size-1)), reader)
		must(err)
		stored = append(stored, hashes...)
		root, err := tlog.TreeHash(size, reader)
		must(err)
		roots = append(roots, hex.EncodeToString(root[:]))
		included, consistent := sha256.New(), sha256.New()
		for n := int64(0); n < size; n++ {
			record, err := tlog.ProveRecord(size, n, reader)
			must(err)
			older, err := tlog.ProveTree(size, n+1, reader)
			must(err)
			included.Write(joined(record))
			consistent.Write(joined(older))
		}
		inclusion[strconv.FormatInt(size, 10)] = hex.EncodeToString(included.Sum(nil))
		consistency[strconv.FormatInt(size, 10)] = hex.EncodeToString(consistent.Sum(nil))
	}
	skey, vkey, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{1}, 32)), "ledger-0123456789ab/default")
	must(err)
	signer, err := note.NewSigner(skey)
	must(err)
	root, err := hex.DecodeString(roots[most-1])
	must(err)
	text := fmt.Sprintf("ledger-0123456789ab/default\n%d\n%s\n", most, base64.StdEncoding.EncodeToString(root))
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	must(err)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	must(encoder.Encode(map[string]any{
		"about": "What Go's sumdb/tlog and sumdb/note compute for the entries \"entry 0\", \"entry 1\" and so on: the root of " +
			"each size from 1 on; per size, SHA-256 over all its proofs in order, each after the number of its hashes in " +
			"one byte; and a signed head. Made by: python -m tests.judges --write-vectors",
		"roots":       roots,
		"inclusion":   inclusion,
		"consistency": consistency,
		"secret":      strings.Repeat("01", 32),
		"vkey":        vkey,
		"signed":      string(signed),
	}))
}

func joined(proof []tlog.Hash) []byte {
	all := []byte{byte(len(proof))}
	for _, hash := range proof {
		all = append(all, hash[:]...)
	}
	return all
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
