// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Which columns of a Parquet file are read, and a value of one as the CSV would have it.

use jiff::Timestamp;
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::Decimal;
use parquet::record::Field;
use parquet::schema::types::Type;

use crate::csv_text::column_name;
use crate::error::{Error, Result};

/// One that is read.
pub struct Column {
    /// Its place in the file.
    pub index: usize,
    /// In the one form of names.
    pub name: String,
    /// Its whole numbers are nanoseconds since 1970: rows have no type of their own for these.
    is_nanoseconds: bool,
}

impl Column {
    /// Refuses what has no meaning here, and what the library cannot put into a row.
    pub fn new(index: usize, field: &Type) -> Result<Self> {
        let name = column_name(field.name());
        let refused = |why: &str| Err(Error::Input(format!("the column {name} {why}")));
        if field.is_group() || field.get_basic_info().repetition() == Repetition::REPEATED {
            return refused("is nested: write one value a row");
        }
        let info = field.get_basic_info();
        let logical = info.logical_type_ref();
        let is_nanoseconds = match logical {
            Some(LogicalType::Timestamp(of)) if !of.is_adjusted_to_u_t_c => {
                return refused(NO_ZONE);
            }
            Some(LogicalType::Timestamp(of)) => matches!(of.unit, TimeUnit::NANOS),
            Some(LogicalType::Time(_)) => return refused(OTHER_TYPE),
            _ => false,
        };
        use ConvertedType as C;
        let is_read = match (field.get_physical_type(), info.converted_type()) {
            (Physical::INT96, _) => return refused(NO_ZONE),
            (Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE, _) => true,
            (Physical::INT32, of) => !matches!(of, C::DATE | C::TIME_MILLIS),
            (Physical::INT64, of) => of != C::TIME_MICROS,
            (Physical::BYTE_ARRAY, of) => {
                matches!(of, C::UTF8 | C::ENUM | C::JSON | C::NONE | C::DECIMAL)
            }
            (Physical::FIXED_LEN_BYTE_ARRAY, C::DECIMAL) => true,
            (Physical::FIXED_LEN_BYTE_ARRAY, _) => logical == Some(&LogicalType::Float16),
        };
        match is_read {
            true => Ok(Column { index, name, is_nanoseconds }),
            false => refused(OTHER_TYPE),
        }
    }

    pub fn cell(&self, field: &Field) -> Result<String> {
        Ok(match field {
            Field::Null => String::new(),
            // NaN is how programs say that there is no value.
            Field::Double(value) if value.is_nan() => String::new(),
            Field::Float(value) if value.is_nan() => String::new(),
            Field::Float16(value) if value.is_nan() => String::new(),
            Field::Str(text) => text.clone(),
            Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
                Ok(text) => text.into(),
                Err(_) => return Err(self.wrong("bytes that are no UTF-8")),
            },
            Field::Decimal(value) => {
                decimal(value).ok_or_else(|| self.wrong("a decimal too long"))?
            }
            Field::TimestampMillis(ms) => self.moment(ms.checked_mul(1000))?,
            Field::TimestampMicros(us) => self.moment(Some(*us))?,
            Field::Long(ns) if self.is_nanoseconds => self.moment(Some(ns.div_euclid(1000)))?,
            other => other.to_string(),
        })
    }

    fn moment(&self, us: Option<i64>) -> Result<String> {
        let moment = us.and_then(|us| Timestamp::from_microsecond(us).ok());
        Ok(moment.ok_or_else(|| self.wrong("a time out of range"))?.to_string())
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Input(format!("the column {} has {what}", self.name))
    }
}

const NO_ZONE: &str =
    "has no zone: write it with the zone UTC (in pandas .dt.tz_localize(\"UTC\")), or as text in RFC 3339";
const OTHER_TYPE: &str = "has a type that is not read: write a number, text, or a time with a date";

/// The library's own text has no form for decimals without digits before the point.
fn decimal(value: &Decimal) -> Option<String> {
    let is_negative = value.data().first()? & 0x80 != 0;
    let (sign, fill) = if is_negative { (-1, 0xff) } else { (0_i128, 0) };
    let filled = value.data().iter().take_while(|byte| **byte == fill).count();
    let bytes = &value.data()[filled..];
    // One byte less than an i128 has, for its sign.
    if bytes.len() >= size_of::<i128>() {
        return None;
    }
    let whole = bytes.iter().fold(sign, |n, byte| (n << 8) | i128::from(*byte));
    let scale = usize::try_from(value.scale()).ok().filter(|scale| *scale <= 38)?;
    let digits = format!("{:0>1$}", whole.unsigned_abs(), scale + 1);
    let (before, after) = digits.split_at(digits.len() - scale);
    let minus = if whole < 0 { "-" } else { "" };
    Some(match after {
        "" => format!("{minus}{before}"),
        after => format!("{minus}{before}.{after}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_with_all_their_digits() {
        for (value, precision, scale, text) in [
            (12345, 9, 2, "123.45"),
            (-12345, 9, 2, "-123.45"),
            (5, 3, 3, "0.005"),
            (-5, 9, 0, "-5"),
            (i32::MIN, 10, 0, "-2147483648"),
        ] {
            let told = decimal(&Decimal::from_i32(value, precision, scale));
            assert_eq!(told.as_deref(), Some(text));
        }
        let long = Decimal::from_bytes(vec![1; 17].into(), 40, 0);
        assert_eq!(decimal(&long), None);
        for (fill, byte, text) in [(0, 5, "0.05"), (0xff, 0xfb, "-0.05")] {
            let wide = [&[fill; 31][..], &[byte]].concat();
            assert_eq!(decimal(&Decimal::from_bytes(wide.into(), 76, 2)).as_deref(), Some(text));
        }
    }
}
