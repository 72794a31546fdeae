//! Reads one page of a list: its entries as the server wrote them, up to a number, and where the next
//! page is.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// One page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Box<RawValue>>,
    /// Of the next page.
    pub(crate) cursor: Option<String>,
}

/// A page has more entries than wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Page {
    /// Of the result `json`, whose `member` is the list. What is no list is an empty one.
    ///
    /// A page may have millions of entries: none is taken in beyond the first `most`.
    pub(crate) fn read(json: &str, member: &str, most: usize) -> Result<Self, TooMany> {
        let found = serde_json::Deserializer::from_str(json).deserialize_map(Find { member });
        let Found { list, cursor } = found.unwrap_or_default();
        let cursor = cursor.and_then(|cursor| serde_json::from_str(cursor.get()).ok());
        let Some(list) = list.map(RawValue::get).filter(|list| list.starts_with('[')) else {
            return Ok(Self { entries: Vec::new(), cursor });
        };
        // It is known to be JSON: nothing else can be wrong with it.
        let entries = serde_json::Deserializer::from_str(list).deserialize_seq(Take { most });
        Ok(Self { entries: entries.map_err(|_| TooMany)?, cursor })
    }
}

/// The text of the members that count; of several with one name the last, as most readers see it.
#[derive(Default)]
struct Found<'a> {
    list: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
}

struct Find<'a> {
    member: &'a str,
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page of a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Found::default();
        // Names as well may be oddly written.
        while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            if is(name, self.member) {
                found.list = Some(value);
            } else if is(name, "nextCursor") {
                found.cursor = Some(value);
            }
        }
        Ok(found)
    }
}

fn is(written: &RawValue, name: &str) -> bool {
    let written = written.get();
    if written.contains('\\') {
        return serde_json::from_str::<String>(written).is_ok_and(|text| text == name);
    }
    written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(name)
}

struct Take {
    most: usize,
}

impl<'de> Visitor<'de> for Take {
    type Value = Vec<Box<RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element::<&RawValue>()? {
            if entries.len() == self.most {
                return Err(A::Error::custom("there are too many"));
            }
            entries.push(entry.to_owned());
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> (Vec<String>, Option<String>) {
        let page = Page::read(json, "tools", 3).unwrap();
        (page.entries.iter().map(|entry| entry.get().to_owned()).collect(), page.cursor)
    }

    #[test]
    fn entries_stay_as_they_were_written() {
        let (entries, cursor) =
            read(r#"{"x":[1],"tools":[{"a":1.0}, "\ud800",2],"nextCursor":"n"}"#);
        assert_eq!(entries, [r#"{"a":1.0}"#, r#""\ud800""#, "2"]);
        assert_eq!(cursor.unwrap(), "n");
    }

    #[test]
    fn the_last_of_several_members_counts_however_it_is_written() {
        let json =
            r#"{"\ud800":0,"tools":[1,2,3,4],"t\u006fols":[5],"nextCursor":"a","nextCursor":7}"#;
        assert_eq!(read(json), (vec!["5".to_owned()], None));
    }

    #[test]
    fn what_is_no_list_is_an_empty_one() {
        for json in ["null", "[1]", "{}", r#"{"tools":{}}"#, r#"{"tools":null}"#, r#"{"tools":[]}"#]
        {
            assert_eq!(read(json), (Vec::new(), None), "{json}");
        }
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        assert_eq!(read(r#"{"tools":[1,2,3]}"#).0.len(), 3);
        assert_eq!(Page::read(r#"{"tools":[1,2,3,4]}"#, "tools", 3).unwrap_err(), TooMany);
        assert_eq!(Page::read(r#"{"tools":[1]}"#, "tools", 0).unwrap_err(), TooMany);
    }
}
