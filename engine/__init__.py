"""The training half of Leadwise. It meets `data_tools` only in the dataset folder."""
