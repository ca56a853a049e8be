"""What the device of a record can do: its row in the card table."""

from nanodyno.hardware.cards import Card, find_card
from nanodyno.records.types import MachineRecord


def card_of(machine: MachineRecord) -> Card | None:
    """None on a CPU and for a card that is not in the table."""
    if machine.device_type != "cuda":
        return None
    return find_card(machine.device_name, machine.device_memory_bytes, machine.multiprocessors)
