"""Products of an operator's own, for tests: shares, a perpetual swap traded in fractions, and a long ticker."""

from outcry.market.calendar import Calendar
from outcry.market.instruments import Universe
from outcry.market.reference import parse_products
from outcry.market.reference_hours import parse_hours
from outcry.trades.reference_tables import Reference

PRODUCTS = """\
root,name,exchange,sector,parent,tick,multiplier,size_step,unit,months,serial,skipped,zone,settle,expiry_rule,\
notice_rule,roll_sessions,projectx,aliases,source,checked_on,note
SPY,S&P 500 ETF,CME,index,,0.01,1,,points,,,,America/New_York,,,,,,,test,2026-11-23,
BTC-PERP,Bitcoin perpetual,CME,index,,0.1,1,0.001,points,,,,America/New_York,,,,,,BTC/USDT btcusdt,test,2026-11-23,
NK225,Nikkei 225,CME,index,,5,1000,,points,HMUZ,,,America/New_York,15:59:30-16:00:00,third_friday,none,1,,,test,\
2026-11-23,
"""
HOURS = """\
roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note
SPY BTC-PERP NK225,,Mon-Fri,2012-01-01,,<18:00-17:00,09:30-16:00,test,2026-11-23,
"""


def own_reference() -> Reference:
    """Return the products above with their hours, without holidays."""
    products = parse_products(PRODUCTS)
    calendar = Calendar(products, parse_hours(HOURS, products), ())
    return Reference(Universe(products, calendar.hours.is_business_day), calendar)
