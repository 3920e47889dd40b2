"""Reads the names and codes of states of the United States and Mexico and of provinces of Canada."""

import unicodedata
from functools import lru_cache

_CODES_TEXT = """
alabama=AL alaska=AK arizona=AZ arkansas=AR california=CA colorado=CO connecticut=CT delaware=DE districtofcolumbia=DC
florida=FL georgia=GA hawaii=HI idaho=ID illinois=IL indiana=IN iowa=IA kansas=KS kentucky=KY louisiana=LA maine=ME
maryland=MD massachusetts=MA michigan=MI minnesota=MN mississippi=MS missouri=MO montana=MT nebraska=NE nevada=NV
newhampshire=NH newjersey=NJ newmexico=NM newyork=NY northcarolina=NC northdakota=ND ohio=OH oklahoma=OK oregon=OR
pennsylvania=PA rhodeisland=RI southcarolina=SC southdakota=SD tennessee=TN texas=TX utah=UT vermont=VT virginia=VA
washington=WA westvirginia=WV wisconsin=WI wyoming=WY
alberta=AB alta=AB britishcolumbia=BC manitoba=MB man=MB newbrunswick=NB newfoundland=NL newfoundlandandlabrador=NL
nf=NL nfld=NL novascotia=NS northwestterritories=NT nwt=NT nunavut=NU ontario=ON ont=ON princeedwardisland=PE pei=PE
quebec=QC que=QC pq=QC saskatchewan=SK sask=SK yukon=YT yk=YT
aguascalientes=AGU bajacalifornia=BCN bajacalifornianorte=BCN bajacaliforniasur=BCS campeche=CAM chiapas=CHP
chihuahua=CHH ciudaddemexico=CMX coahuila=COA colima=COL durango=DUR guanajuato=GUA guerrero=GRO hidalgo=HID
jalisco=JAL mexico=MEX michoacan=MIC morelos=MOR nayarit=NAY nuevoleon=NLE oaxaca=OAX puebla=PUE queretaro=QUE
quintanaroo=ROO sanluispotosi=SLP sinaloa=SIN sonora=SON tabasco=TAB tamaulipas=TAM tlaxcala=TLA veracruz=VER
yucatan=YUC zacatecas=ZAC
"""
_CODES = dict(pair.split("=") for pair in _CODES_TEXT.split())
_ALL_CODES = frozenset(_CODES.values())

US_STATES = frozenset(_CODES[name] for name in _CODES_TEXT.split("alberta=")[0].replace("=", " ").split()[::2])
"""The codes of the United States, which nearly all files use."""


@lru_cache(maxsize=1_000)
def plain_state(state: str) -> str:
    """The code of a state in capitals, QC for `Québec`. An unknown text stays, in capitals."""
    return _CODES.get(letters_of(state), state.strip().upper())


def code_of_state(state: str) -> str:
    """The code of a state by its name or its code in small letters. An unknown text stays unchanged."""
    code = plain_state(state)
    return code if code in _ALL_CODES else state


@lru_cache(maxsize=1_000)
def letters_of(text: str) -> str:
    """The letters in small, without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return "".join(letter for letter in plain if letter.isalpha())
