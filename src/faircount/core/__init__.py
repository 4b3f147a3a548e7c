"""The words of this field as small frozen types: an attempt on a target, what a judge says of it, and by
whose definitions it is counted.
"""

from faircount.core.lazy import names_of

__getattr__, __dir__ = names_of(__name__, __file__)
