//! Finds any number of patterns in one pass, each also where it is cut to a beginning of it.
//!
//! This is the automaton of Aho and Corasick over a trie of all patterns: the time is linear in the
//! text, whatever the patterns are. Written here because a beginning counts as a match as well: the
//! state knows how much of a pattern was just read, which a library does not tell.

use std::collections::HashMap;
use std::ops::Range;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) bytes: Vec<u8>,
    /// So many bytes of it count as a match; at most all of them.
    pub(super) enough: usize,
    /// It is the beginning of something longer, which goes on as long as [`is_coded`] holds.
    pub(super) goes_on: bool,
}

/// A byte of a text and the place where it stands there; an escape is one byte and several places.
pub(super) type Symbol = (u8, Range<usize>);

/// All patterns, ready to be looked for.
#[derive(Debug)]
pub(super) struct Automaton {
    /// The first one is the root.
    nodes: Vec<Node>,
    /// The node that is longer than another by this byte.
    children: HashMap<(u32, u8), u32>,
    longest: usize,
}

/// The beginning of one or more patterns.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    goes_on: bool,
    /// The number of its bytes.
    depth: u32,
    /// So many of its last bytes are a match; 0 for none.
    matched: u32,
    /// The node for the longest end of it that is a beginning as well.
    fail: u32,
}

const ROOT: u32 = 0;

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// In order, apart from each other.
    pub(super) places: Vec<Range<usize>>,
    /// Where the beginning of a pattern starts that the end of the text may have cut.
    pub(super) cut: Option<usize>,
}

impl Automaton {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        let longest = patterns.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or(0);
        let mut automaton =
            Self { nodes: vec![Node::default()], children: HashMap::new(), longest };
        patterns.iter().for_each(|pattern| automaton.insert(pattern));
        automaton.link();
        automaton
    }

    /// Looks for all patterns at once.
    pub(super) fn find(&self, symbols: impl Iterator<Item = Symbol>) -> Matches {
        let mut found = Matches::default();
        if self.longest == 0 {
            return found;
        }
        // Where the last symbols start, as many as the longest pattern has.
        let mut starts = vec![0; self.longest.next_power_of_two()];
        let mask = starts.len() - 1;
        let (mut state, mut goes_on, mut count) = (ROOT, false, 0_usize);
        for (byte, place) in symbols {
            starts[count & mask] = place.start;
            count += 1;
            state = self.next(state, byte);
            let node = self.node(state);
            if node.matched > 0 {
                let start = starts[(count - node.matched as usize) & mask];
                cover(&mut found.places, start..place.end);
                goes_on = node.goes_on;
            } else {
                goes_on &= is_coded(byte);
                if let Some(last) = found.places.last_mut().filter(|_| goes_on) {
                    last.end = place.end;
                }
            }
        }
        let depth = self.node(state).depth as usize;
        found.cut = (depth > 0).then(|| starts[(count - depth) & mask]);
        found
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// The longest beginning of a pattern that ends with `byte`.
    fn next(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            match self.children.get(&(state, byte)) {
                Some(child) => return *child,
                None if state == ROOT => return ROOT,
                None => state = self.node(state).fail,
            }
        }
    }

    fn insert(&mut self, pattern: &Pattern) {
        let mut at = ROOT;
        for (depth, byte) in (1_u32..).zip(pattern.bytes.iter().copied()) {
            let new = u32::try_from(self.nodes.len()).unwrap_or(ROOT);
            at = *self.children.entry((at, byte)).or_insert(new);
            if at == new {
                self.nodes.push(Node { depth, ..Node::default() });
            }
            if depth as usize >= pattern.enough {
                let node = &mut self.nodes[at as usize];
                node.matched = depth;
                node.goes_on |= pattern.goes_on;
            }
        }
    }

    /// Sets all `fail` links, the shorter beginnings first, and what they add to the matches.
    fn link(&mut self) {
        let mut links: Vec<_> = self.children.iter().map(|(from, child)| (*from, *child)).collect();
        links.sort_unstable_by_key(|(_, child)| self.node(*child).depth);
        for ((parent, byte), child) in links.into_iter().filter(|((parent, _), _)| *parent != ROOT)
        {
            let fail = self.next(self.node(parent).fail, byte);
            let end = *self.node(fail);
            let node = &mut self.nodes[child as usize];
            node.fail = fail;
            if node.matched == 0 {
                (node.matched, node.goes_on) = (end.matched, end.goes_on);
            }
        }
    }
}

/// Whether a byte can stand in base64 or in hexadecimal numbers, folded.
fn is_coded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Adds a place that ends behind all others, and may begin before them.
fn cover(places: &mut Vec<Range<usize>>, mut new: Range<usize>) {
    while let Some(last) = places.pop_if(|last| last.end > new.start) {
        new.start = new.start.min(last.start);
    }
    places.push(new);
}
