/* Texts and numbers on the chart: the page provides the texts; prices use the exchange's format. */

import { formatLots, formatPrice } from "../prices.js";

/* "R {range}" with {range: "6.75"} is "R 6.75". */
export function fill(text, values) {
  return text.replace(/\{([\w]+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/* Formats the texts of a chart of `model`, in the page's language. */
export class Wording {
  constructor(words, language) {
    this.words = words;
    this.year = String(words.year);
    const utc = (options) => new Intl.DateTimeFormat(language, { timeZone: "UTC", ...options });
    this.weekday = utc({ weekday: "short" });
    this.month = utc({ month: "short" });
    this.named = utc({ day: "numeric", month: "short" });
    this.namedWithYear = utc({ day: "numeric", month: "short", year: "numeric" });
    this.short = utc({ day: "numeric", month: "numeric" });
    this.shortWithYear = utc({ day: "numeric", month: "numeric", year: "2-digit" });
    this.hour = utc({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }

  /* "Fri 20": weekday and day of a session. */
  day(date) {
    const at = Date.parse(date);
    return `${bare(this.weekday.format(at))} ${dayNumber(date)}`;
  }

  /* "Fri 20 Nov": a date with its month, and with its year if it is not the current one. */
  dayMonth(date) {
    const text = `${this.day(date)} ${bare(this.month.format(Date.parse(date)))}`;
    return this.isOfThisYear(date) ? text : `${text} ${date.slice(0, 4)}`;
  }

  /* "Nov 2": month and day. */
  monthDay(date) {
    return bare((this.isOfThisYear(date) ? this.named : this.namedWithYear).format(Date.parse(date)));
  }

  shortDate(date) {
    return (this.isOfThisYear(date) ? this.short : this.shortWithYear).format(Date.parse(date));
  }

  isOfThisYear(date) {
    return date.startsWith(this.year);
  }

  /* A time on the exchange's clock, in the model's seconds. */
  time(seconds) {
    return this.hour.format(seconds * 1000);
  }

  lots(number) {
    return formatLots(number);
  }

  price(price, notation) {
    return formatPrice(price, notation);
  }

  /* The distance between two prices: 6.75, 24. */
  span(points, notation) {
    const text = formatPrice(points, notation, { group: false });
    return notation.kind === "decimal" && text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }

  /* The page's text for the date and age of a level; only the date if the page has no text yet. */
  dated(date) {
    return this.words.dated?.[date] ?? this.dayMonth(date);
  }
}

function bare(text) {
  return text.replace(/\.$/, "");
}

export function dayNumber(date) {
  return String(Number(date.slice(8)));
}
