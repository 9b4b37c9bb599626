"""A card as one page that asks the network for nothing, and as Markdown."""

from __future__ import annotations

from markupsafe import Markup

from volta._version import __version__
from volta.cards.card import Card, CardTable
from volta.report.markdown import escaped
from volta.report.page import asset, template_environment


def card_html(card: Card) -> str:
    """Return the page: light and dark, its style and figures inside."""
    environment = template_environment("volta.cards")
    # Files of this package and figures made of numbers alone; text of the user's is escaped by the template.
    environment.filters["svg"] = Markup
    return environment.get_template("card.html").render(
        card=card, version=__version__, style_sheet=Markup(asset("report.css")), early_script=Markup(asset("early.js"))
    )


def card_markdown(card: Card) -> str:
    """Return the card without its figures; what they show stands in the tables."""
    parts = [f"# {escaped(card.title)}", escaped(card.lead)]
    parts.append("\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in card.facts))
    for section in card.sections:
        parts.append(f"## {escaped(section.title)}")
        parts += [escaped(sentence) for sentence in section.sentences]
        parts += [_table(table) for table in section.tables]
        if section.points:
            parts.append("\n".join(f"- {escaped(point)}" for point in section.points))
    return "\n\n".join([*parts, f"Made by volta {__version__} from the model's file."]) + "\n"


def _table(table: CardTable) -> str:
    lines = [table.head, ("---",) * len(table.head), *table.rows]
    body = [[cell if cell == "---" else escaped(cell) for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in body)
