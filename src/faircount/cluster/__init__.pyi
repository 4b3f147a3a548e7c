from faircount.cluster.spark import SparkEngine as SparkEngine
from faircount.cluster.spark import spark_engine as spark_engine
